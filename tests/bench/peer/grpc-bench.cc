// gRPC C++ beside our RPC: a unary call of 32 bytes each way over a Unix socket, one after the
// other.
//   grpc-bench CALLS      prints JSON: {"calls":N,"p50us":…,"p99us":…}
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "echo.grpc.pb.h"

namespace {

class Echo final : public bench::Echo::Service {
  grpc::Status Call(grpc::ServerContext*, const bench::Bytes* in, bench::Bytes* out) override {
    out->set_data(in->data());
    return grpc::Status::OK;
  }
};

void serve(const std::string& address) {
  Echo service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.BuildAndStart()->Wait();
}

}  // namespace

int main(int argc, char** argv) {
  int calls = argc > 1 ? atoi(argv[1]) : 20000;
  auto address = "unix:/tmp/grpc-bench-" + std::to_string(getpid()) + ".sock";
  pid_t server = fork();
  if (server == 0) {
    serve(address);
    _exit(0);
  }
  auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
  auto stub = bench::Echo::NewStub(channel);
  std::vector<double> micros;
  bench::Bytes request, reply;
  request.set_data(std::string(32, 'x'));
  for (int i = -1000; i < calls; ++i) {  // the first thousand warm up
    grpc::ClientContext context;
    auto began = std::chrono::steady_clock::now();
    if (!stub->Call(&context, request, &reply).ok() || reply.data().size() != 32) return 1;
    if (i >= 0) {
      micros.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
              .count());
    }
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  unlink(address.substr(5).c_str());
  std::sort(micros.begin(), micros.end());
  printf("{\"calls\":%d,\"p50us\":%.1f,\"p99us\":%.1f}\n", calls, micros[calls / 2],
         micros[calls * 99 / 100]);
}
