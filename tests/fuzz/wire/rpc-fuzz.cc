// A peer of apid that has passed the handshake and then sends any bytes: Cap'n Proto's own
// decoding, our limits, the Cluster behind the membrane and the calls that it leads to, in one
// process without a socket.
//
// link: apid-gate apid-grpc machined-api machined-resources
#include "apid/gate/test-apid-node.h"
#include "tests/fuzz/fuzz-target.h"
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/cluster-conversation.h"

namespace {

using namespace talos;
using namespace talos::apid;
using talos::apid::testing::Model;
using talos::apid::testing::ModelMachined;
using talos::apid::testing::ModelNode;

struct FuzzedServer {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Model model;
  Self self;
  PeerConnections peers{timer, [](const Ip& address) -> kj::Promise<Remote> {
                          return error(ErrorKind::kUnavailable, address.toString());
                        }};
  AuditLog audit{timer, kj::heap<ModelMachined>(model)};
  Budget budget{kClientBudget};
  RequestIds ids{1};
  Gate gate{timer,
            [this](auto&&...) {
              return
                  [this](kj::StringPtr) -> rpc::Node::Client { return kj::heap<ModelNode>(model); };
            },
            peers,
            budget,
            audit,
            ids,
            self};
  fuzz::PipeServer server{scope, timer, [this]() -> capnp::Capability::Client {
                            Peer peer;
                            peer.organizations.add(kj::str("os:admin"));
                            return gate.open(peer).bootstrap;
                          }};
  kj::Array<kj::byte> right = testbeds::clusterConversation();

  FuzzedServer() {
    model.tag = kj::str("model");
    server.check(right, 6, 1);
    KJ_ASSERT(model.versions == 1 && model.reads == 1);
  }
};

}  // namespace

FUZZ_TARGET(rpc) {
  static FuzzedServer* fuzzed = new FuzzedServer;
  fuzzed->server.hostile(testbeds::hostileBytes(fuzzed->right, kj::arrayPtr(data, size)));
  fuzzed->model.audited.clear();
  fuzzed->model.recorded.clear();
  KJ_ASSERT(fuzzed->model.readers == 0, "a stream goes on without its reader");
  fuzzed->server.honest([](capnp::Capability::Client bootstrap, kj::WaitScope& scope) {
    auto node = bootstrap.castAs<rpc::Cluster>().nodeRequest().send().getNode();
    auto machine = node.machineRequest().send().getMachine();
    KJ_ASSERT(machine.versionRequest().send().wait(scope).getTag() == "model");
  });
  return 0;
}
