// gRPC C++ beside our own client: a unary call to containerd over its Unix socket, one after the
// other.
//   containerd-bench SOCKET CALLS      prints JSON: {"calls":N,"p50us":…,"p99us":…}
// Messages are bytes, as in ours: the request is empty and the answer is not decoded.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  int calls = atoi(argv[2]);
  auto channel =
      grpc::CreateChannel(std::string("unix:") + argv[1], grpc::InsecureChannelCredentials());
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
    return 1;
  }
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  std::vector<double> micros;
  for (int i = -1000; i < calls; ++i) {  // the first thousand warm up
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    grpc::ByteBuffer request(nullptr, 0), reply;
    grpc::Status status;
    auto began = std::chrono::steady_clock::now();
    auto call = stub.PrepareUnaryCall(&context, "/containerd.services.version.v1.Version/Version",
                                      request, &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag;
    bool good = false;
    if (!queue.Next(&tag, &good) || !good || !status.ok() || reply.Length() == 0) {
      fprintf(stderr, "%s\n", status.error_message().c_str());
      return 1;
    }
    if (i >= 0) {
      micros.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
              .count());
    }
  }
  queue.Shutdown();
  std::sort(micros.begin(), micros.end());
  printf("{\"calls\":%d,\"p50us\":%.1f,\"p99us\":%.1f}\n", calls, micros[calls / 2],
         micros[calls * 99 / 100]);
}
