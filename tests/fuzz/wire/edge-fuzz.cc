// A request of a client of Talos' API: any bytes, to any method. The node answers nothing,
// so that only the reading of requests is tested.
// link: apid-grpc
#include <kj/debug.h>

#include "apid/grpc/grpc-api.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;

class AnyCall final : public grpc::GrpcCall {
 public:
  AnyCall(kj::StringPtr to, kj::ArrayPtr<const kj::byte> request)
      : to(to), request(kj::heapArray(request)) {}
  kj::StringPtr path() const override { return to; }
  kj::ArrayPtr<const kj::String> metadata(kj::StringPtr) const override { return nullptr; }
  kj::Promise<void> nearDeadline() override { return kj::NEVER_DONE; }
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> receive() override {
    return kj::Maybe<kj::Array<kj::byte>>(kj::mv(request));
  }
  void begin() override {}
  kj::Promise<void> send(kj::Array<kj::byte>) override { return kj::READY_NOW; }

 private:
  kj::StringPtr to;
  kj::Array<kj::byte> request;
};

}  // namespace

FUZZ_TARGET(edge) {
  static grpcapi::GrpcApi api;
  if (size == 0) return 0;
  auto entries = api.entries();
  auto& entry = entries[data[0] % entries.size()];
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  auto handler = api.open(timer, rpc::Cluster::Client(KJ_EXCEPTION(UNIMPLEMENTED, "no node")));
  AnyCall call(entry.path, kj::arrayPtr(data + 1, size - 1));
  auto answer = handler->call(call);
  KJ_ASSERT(answer.poll(scope), "a call without a node waits", entry.path);
  KJ_ASSERT(answer.wait(scope).code != 0, "a call without a node succeeds", entry.path);
  return 0;
}
