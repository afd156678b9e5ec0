// A peer of apid that got through the handshake and then sends anything: Cap'n Proto's own
// decoding, our limits, the Cluster behind the membrane and the calls that it leads to, in one
// process without a socket.
//
// The first byte says what the rest is: bytes as they are; the content of one well-framed message;
// or damage (offset, bits to flip) to a conversation that is right, cut off at some place. Whatever
// comes, the server must end the connection or answer, come to rest, and answer the next honest
// client.
//
// link: apid-lib
#include <capnp/rpc-twoparty.h>
#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>

#include "apid/test-node.h"

namespace {

using namespace talos;
using namespace talos::apid;
using capnp::rpc::Message;
using talos::apid::testing::Model;
using talos::apid::testing::ModelNode;

class Conversation {
 public:
  template <typename Fill>
  void add(Fill&& fill) {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<Message>());
    auto words = capnp::messageToFlatArray(message);
    bytes.addAll(words.asBytes());
  }
  // Calls a method of what an earlier question answers: of its first pointer, or itself.
  template <typename Params>
  void call(unsigned question, unsigned target, bool field, uint64_t interface, unsigned method,
            Params&& params) {
    add([&](Message::Builder message) {
      auto call = message.initCall();
      call.setQuestionId(question);
      auto answer = call.initTarget().initPromisedAnswer();
      answer.setQuestionId(target);
      if (field) answer.initTransform(1)[0].setGetPointerField(0);
      call.setInterfaceId(interface);
      call.setMethodId(method);
      params(call.initParams());
    });
  }
  kj::Vector<kj::byte> bytes;
};

// Everything that a client of ours does, and what a three-party client would.
kj::Array<kj::byte> rightConversation() {
  Conversation c;
  auto none = [](capnp::rpc::Payload::Builder payload) {
    payload.getContent().initAsAnyStruct(0, 0);
  };
  c.add([](Message::Builder m) { m.initBootstrap().setQuestionId(0); });
  c.call(1, 0, false, capnp::typeId<rpc::Cluster>(), 0, [](auto payload) {
    payload.getContent().template initAs<rpc::Cluster::NodeParams>().setAddress("");
  });
  c.call(2, 0, false, capnp::typeId<rpc::Cluster>(), 1, [](auto payload) {
    payload.getContent().template initAs<rpc::Cluster::WithRolesParams>().initRoles(1).set(
        0, "os:admin");
  });
  c.call(3, 2, true, capnp::typeId<rpc::Cluster>(), 0, [](auto payload) {
    payload.getContent().template initAs<rpc::Cluster::NodeParams>().setAddress("10.0.0.9");
  });
  c.call(4, 1, true, capnp::typeId<rpc::Node>(), 0, none);
  c.call(5, 4, true, capnp::typeId<rpc::Machine>(), 0, none);
  c.call(6, 1, true, capnp::typeId<rpc::Node>(), 3, none);
  c.call(7, 6, true, capnp::typeId<rpc::Logs>(), 1, [](auto payload) {
    capnp::BuilderCapabilityTable table;
    auto params = table.imbue(payload.getContent()).template initAs<rpc::Logs::ReadParams>();
    params.setId("x");
    // Any capability makes a pointer to entry 0 of the table, which is the sender's export 7.
    params.setSink(rpc::LogSink::Client(KJ_EXCEPTION(FAILED, "never called")));
    payload.initCapTable(1)[0].setSenderHosted(7);
  });
  c.add([](Message::Builder m) {
    auto disembargo = m.initDisembargo();
    disembargo.initTarget().initPromisedAnswer().setQuestionId(1);
    disembargo.getContext().setSenderLoopback(1);
  });
  c.add([](Message::Builder m) {
    auto result = m.initReturn();
    result.setAnswerId(0);
    result.initResults();
  });
  c.add([](Message::Builder m) {
    auto resolve = m.initResolve();
    resolve.setPromiseId(7);
    resolve.initCap().setSenderHosted(8);
  });
  c.add([](Message::Builder m) {
    m.initRelease().setId(0);
    m.getRelease().setReferenceCount(1);
  });
  for (unsigned i : {5u, 4u, 3u, 7u, 6u, 2u, 1u, 0u}) {
    c.add([i](Message::Builder m) {
      m.initFinish().setQuestionId(i);
      m.getFinish().setReleaseResultCaps(true);
    });
  }
  c.add([](Message::Builder m) { m.initProvide().setQuestionId(9); });
  return c.bytes.releaseAsArray();
}

struct World {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Model model;
  Self self;
  Fleet fleet{timer, [](const Address& address) -> kj::Promise<kj::Own<Connection>> {
                return error(ErrorKind::kUnavailable, address.toString());
              }};
  Gate gate{[this]() -> rpc::Node::Client { return kj::heap<ModelNode>(model); }, fleet, self};
  kj::Array<kj::byte> right = rightConversation();

  rpc::Cluster::Client open() {
    Peer peer;
    peer.organizations.add(kj::str("os:admin"));
    return gate.open(peer);
  }

  // Until nothing moves any more.
  void settle() {
    KJ_ASSERT(scope.poll(1'000'000) < 1'000'000, "the server does not come to rest");
  }

  void hostile(kj::ArrayPtr<const kj::byte> bytes) {
    ServerLimits limits;
    limits.questions = 64;
    limits.messageWords = 1 << 16;
    auto pipe = kj::newTwoWayPipe();
    auto serving =
        serveConnection(timer, kj::mv(pipe.ends[0]), open(), limits).eagerlyEvaluate(nullptr);
    auto& end = *pipe.ends[1];
    kj::byte sink[4096];
    auto reading = drain(end, sink).eagerlyEvaluate([](kj::Exception&&) {});
    auto writing = end.write(bytes.begin(), bytes.size())
                       .then([&end]() { end.shutdownWrite(); })
                       .eagerlyEvaluate([](kj::Exception&&) {});
    settle();
    timer.advanceTo(timer.now() + 10 * kj::SECONDS);
    settle();
    writing = nullptr;
    reading = nullptr;
    pipe.ends[1] = nullptr;
    settle();
    serving = nullptr;
    settle();
    KJ_ASSERT(model.readers == 0, "a stream goes on without its reader");
  }

  static kj::Promise<void> drain(kj::AsyncIoStream& stream, kj::ArrayPtr<kj::byte> buffer) {
    while (co_await stream.tryRead(buffer.begin(), 1, buffer.size()) > 0) {
    }
  }

  void honest() {
    auto pipe = kj::newTwoWayPipe();
    auto serving = serveConnection(timer, kj::mv(pipe.ends[0]), open()).eagerlyEvaluate(nullptr);
    {
      capnp::TwoPartyClient client(*pipe.ends[1]);
      auto cluster = client.bootstrap().castAs<rpc::Cluster>();
      auto machine = cluster.nodeRequest().send().getNode().machineRequest().send().getMachine();
      KJ_ASSERT(machine.versionRequest().send().wait(scope).getTag() == "model");
    }
    pipe.ends[1] = nullptr;
    settle();
  }
};

// Flips bits of the right conversation as the input says, three bytes a flip, and cuts it.
kj::Array<kj::byte> damaged(kj::ArrayPtr<const kj::byte> right,
                            kj::ArrayPtr<const kj::byte> input) {
  auto bytes = kj::heapArray(right);
  size_t length = bytes.size();
  if (input.size() >= 2) {
    size_t cut = input[0] | input[1] << 8;
    if (cut < length) length = cut;
    input = input.slice(2, input.size());
  }
  for (; input.size() >= 3; input = input.slice(3, input.size())) {
    bytes[(input[0] | input[1] << 8) % bytes.size()] ^= input[2];
  }
  return kj::heapArray(bytes.slice(0, length));
}

kj::Array<kj::byte> framed(kj::ArrayPtr<const kj::byte> input) {
  uint32_t words = input.size() / 8;
  auto bytes = kj::heapArray<kj::byte>(8 + words * 8);
  uint32_t header[2] = {0, words};
  memcpy(bytes.begin(), header, 8);
  memcpy(bytes.begin() + 8, input.begin(), words * 8);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World* world = new World;
  if (world->model.tag.size() == 0) {
    world->model.tag = kj::str("model");
    // What is to be damaged must be right: it reaches the machine and a log, in one go.
    world->hostile(world->right);
    KJ_ASSERT(world->model.versions == 1 && world->model.reads == 1);
  }
  if (size == 0) return 0;
  auto input = kj::arrayPtr(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      world->hostile(input);
      break;
    case 1:
      world->hostile(framed(input));
      break;
    default:
      world->hostile(damaged(world->right, input));
      break;
  }
  world->honest();
  return 0;
}
