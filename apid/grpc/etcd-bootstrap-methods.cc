// The methods Bootstrap and EtcdRecover: clients upload a snapshot before the bootstrap that
// restores it.
#include "apid/grpc/method-table.h"
#include "common/base/resource.h"
#include "common/grpc-messages/request-fields.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::grpcapi {
namespace {

constexpr size_t kLargestPiece = 64u << 10;

// Returns true if the node is a member of a cluster, or joining one. An unknown status counts as no
// cluster.
kj::Promise<bool> hasCluster(rpc::Node::Client node) {
  auto request = node.resourcesRequest().send().getResources().getRequest();
  request.getKind().setNamespace("etcd");
  request.getKind().setType(typeName<rpc::EtcdStatusSpec>());
  request.setId("etcd");
  return request.send().then(
      [](capnp::Response<rpc::Resources::GetResults>&& response) {
        auto phase = response.getResource().getSpec().getAs<rpc::EtcdStatusSpec>().getPhase();
        return phase == "member" || phase == "learner" || phase == "joining";
      },
      [](kj::Exception&&) { return false; });
}

// A Conflict of this method is AlreadyExists, which clients treat as success. So it is returned if
// a cluster exists, and not if another node has only started to create one. A snapshot that was not
// restored is never a success.
class Bootstrap final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    bool recovers = request.flag(1), skips = request.flag(2);
    if (skips && !recovers) {
      fail(ErrorKind::kInvalidArgument, "recover_skip_hash_check needs recover_etcd");
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

// The node keeps the snapshot until the bootstrap that restores it.
class EtcdRecover final : public StreamMethod {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, CallContext, RequestStream& input,
                        Output& output) const override {
    auto etcd = node.etcdRequest().send().getEtcd();
    // Reads no message before the node has allowed it.
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
  all.add(Entry{.path = "/machine.MachineService/Bootstrap",
                .answer = Answer::kMerged,
                .method = kj::heap<Bootstrap>(),
                .conflictMeansExists = true});
  all.add(Entry{.path = "/machine.MachineService/EtcdRecover",
                .answer = Answer::kMerged,
                .streamMethod = kj::heap<EtcdRecover>()});
}

}  // namespace talos::grpcapi
