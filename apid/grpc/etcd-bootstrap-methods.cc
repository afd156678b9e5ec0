// Making a cluster of etcd, also of a snapshot, which clients send in a call of its own before.
#include "apid/grpc/all-methods.h"
#include "apid/grpc/request-fields.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::edge {
namespace {

constexpr size_t kLargestPiece = 64u << 10;

// Whether the node is in a cluster, or on its way into one. What it does not tell is no cluster.
kj::Promise<bool> hasCluster(rpc::Node::Client node) {
  auto request = node.resourcesRequest().send().getResources().getRequest();
  request.getKind().setNamespace("etcd");
  request.getKind().setType("EtcdStatuses.etcd.talos.dev");
  request.setId("etcd");
  return request.send().then(
      [](capnp::Response<rpc::Resources::GetResults>&& response) {
        auto phase = response.getResource().getSpec().getAs<rpc::EtcdStatusSpec>().getPhase();
        return phase == "member" || phase == "learner" || phase == "joining";
      },
      [](kj::Exception&&) { return false; });
}

// Clients take AlreadyExists, which is what a Conflict of this method is called, for success: so it
// is told when there is a cluster, and not when another node has only begun to make one. A snapshot
// that was not restored is no success, whatever there is.
class Bootstrap final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    bool recovers = request.flag(1), skips = request.flag(2);
    if (skips && !recovers) {
      fail(ErrorKind::kInvalidArgument, "to skip the check of a hash needs a snapshot to recover");
    }
    auto call = node.etcdRequest().send().getEtcd().bootstrapRequest();
    if (recovers) {
      auto recovery = call.initRecovery();
      recovery.setKept(true);
      recovery.setSkipHashCheck(skips);
    }
    kj::Maybe<kj::Exception> problem;
    try {
      co_await call.send().ignoreResult();
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (p, problem) {
      auto kind = kindOf(*p);
      if (kind == ErrorKind::kConflict) fail(ErrorKind::kFailedPrecondition, messageOf(*p));
      if (kind == ErrorKind::kFailedPrecondition && !recovers && co_await hasCluster(node)) {
        fail(ErrorKind::kConflict, messageOf(*p));
      }
      kj::throwFatalException(kj::mv(*p));
    }
    co_await output.send(nullptr);
  }
};

// The node keeps what it is sent until the bootstrap that restores it.
class EtcdRecover final : public WideMethod {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Surroundings, Input& input,
                        Output& output) const override {
    auto etcd = node.etcdRequest().send().getEtcd();
    // Nothing of it is taken before the node has allowed it.
    auto response = co_await etcd.keepSnapshotRequest().send();
    auto upload = response.getUpload();
    for (;;) {
      auto message = co_await input.next();
      KJ_IF_MAYBE (m, message) {
        auto bytes = RequestFields(*m).bytes(2);
        for (size_t at = 0; at < bytes.size(); at += kLargestPiece) {
          auto request = upload.writeRequest();
          request.setBytes(bytes.slice(at, kj::min(bytes.size(), at + kLargestPiece)));
          co_await request.send();
        }
      } else {
        break;
      }
    }
    co_await upload.doneRequest().send().ignoreResult();
    co_await output.send(nullptr);
  }
};

}  // namespace

void addBootstrap(kj::Vector<Entry>& all) {
  all.add(Entry{"/machine.MachineService/Bootstrap", Answer::kMerged, kj::heap<Bootstrap>(), true});
  all.add(Entry{.path = "/machine.MachineService/EtcdRecover",
                .answer = Answer::kMerged,
                .wide = kj::heap<EtcdRecover>()});
}

}  // namespace talos::edge
