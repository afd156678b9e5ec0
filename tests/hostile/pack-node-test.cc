// apid under attack by a worker in foreign hands and readers in league with it: answers that are
// large in memory, in time or as text, and answers that a reader never takes.
#include "common/grpc/test-h2.h"
#include "common/testing/own-network.h"
#include "rpc/meta-resources.capnp.h"
#include "tests/hostile/both-protocols.h"
#include "tests/hostile/by-hand.h"

namespace talos::hostile {
namespace {

using apid::testing::Authority;
using namespace grpc::testing;

constexpr auto kHostile = "10.66.0.1"_kj;
// Two accounts of 32 MiB leave other readers a little; three have all that is not reserved for
// administrators (apid/gate/gate.h), and then readers are refused.
constexpr unsigned kReaders = 2;
constexpr size_t kLong = 7u << 20;  // what fits into one message
constexpr size_t kMostGrowthKiB = 160u << 10;

// --- the node ---

class ItsMachine final : public rpc::Machine::Server {
  kj::Promise<void> version(VersionContext context) override {
    context.getResults(capnp::MessageSize{kLong / 8 + 64, 0}).initTag(kLong);
    return kj::READY_NOW;
  }
  kj::Promise<void> counters(CountersContext context) override {
    auto file = context.getResults(capnp::MessageSize{kLong / 8 + 64, 0}).initFiles(1)[0];
    auto text = file.initText(kLong);
    auto first = context.getParams().getOf() == rpc::Counter::SYSTEM ? "intr "_kj : "a:"_kj;
    for (auto i : kj::indices(text)) text[i] = i < first.size() ? first[i] : i % 2 == 0 ? '1' : ' ';
    return kj::READY_NOW;
  }
  kj::Promise<void> mounts(MountsContext context) override {
    context.getResults().initMounts(200'000);
    return kj::READY_NOW;
  }
  kj::Promise<void> memory(MemoryContext context) override {
    context.getResults().initFields(400'000);
    return kj::READY_NOW;
  }
};

class ItsResources final : public rpc::Resources::Server {
  static constexpr auto kDefinitions = "ResourceDefinitions.meta.cosi.dev"_kj;

  // Text of one letter after the other, each of which is a line of YAML.
  static void fill(rpc::Resource::Builder resource, kj::StringPtr type, unsigned aliases) {
    resource.initMetadata().setType(type);
    resource.getMetadata().setId("x");
    auto spec = resource.initSpec().initAs<rpc::ResourceDefinitionSpec>();
    spec.initPrintColumns(aliases);
  }
  kj::Promise<void> get(GetContext context) override {
    fill(context.getResults().initResource(), kDefinitions, 400'000);
    return kj::READY_NOW;
  }
  kj::Promise<void> list(ListContext context) override {
    for (auto resource : context.getResults().initResources(40)) fill(resource, kDefinitions, 8000);
    return kj::READY_NOW;
  }
  kj::Promise<void> watch(WatchContext context) override {
    auto request = context.getParams().getSink().snapshotRequest();
    for (auto resource : request.initResources(40)) fill(resource, kDefinitions, 8000);
    co_await request.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }
};

class ItsContainers final : public rpc::Containers::Server {
  kj::Promise<void> images(ImagesContext context) override {
    auto images = context.getResults().initImages(20);
    for (auto image : images) image.initName(kLong / 20);
    return kj::READY_NOW;
  }
};

class ItsNode final : public rpc::Node::Server {
  // Returns more than the requested capability, because apid passes on unknown fields of an answer.
  DispatchCallResult dispatchCall(
      uint64_t interface, uint16_t method,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    constexpr uint16_t kMachine = 0;
    if (interface != capnp::typeId<rpc::Node>() || method != kMachine || ++machines % 2 == 0) {
      return rpc::Node::Server::dispatchCall(interface, method, context);
    }
    auto results = context.getResults().initAsAnyStruct(0, 2).getPointerSection();
    results[0].setAs<capnp::Capability>(kj::heap<ItsMachine>());
    results[1].initAs<capnp::Data>(1u << 20);
    return {kj::READY_NOW, false, true};
  }
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<ItsMachine>());
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<ItsResources>());
    return kj::READY_NOW;
  }
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(kj::heap<ItsContainers>());
    return kj::READY_NOW;
  }
  unsigned machines = 0;
};

class ItsCluster final : public rpc::Cluster::Server {
  kj::Promise<void> node(NodeContext context) override {
    context.getResults().setNode(kj::heap<ItsNode>());
    return kj::READY_NOW;
  }
  kj::Promise<void> withRoles(WithRolesContext context) override {
    context.getResults().setCluster(thisCap());
    return kj::READY_NOW;
  }
};

struct Errors final : kj::TaskSet::ErrorHandler {
  void taskFailed(kj::Exception&&) override {}
};

kj::Promise<void> serveNode(kj::AsyncIoContext& io, TlsEndpoint& tls) {
  Errors errors;
  kj::TaskSet tasks(errors);
  auto receiver = io.lowLevelProvider->wrapListenSocketFd(listenTcp(kHostile, kApidPort));
  auto serve = [&](kj::Own<kj::AsyncIoStream> raw) -> kj::Promise<void> {
    auto accepted = co_await tls.accept(kj::mv(raw), kj::str("apid"));
    co_await serveConnection(io.provider->getTimer(), kj::mv(accepted.stream),
                             kj::heap<ItsCluster>(), {.questions = 100'000})
        .ignoreResult();
  };
  for (;;) tasks.add(serve(co_await receiver->accept()));
}

// --- the readers ---

std::string text(char field, const std::string& value) {
  return std::string(1, static_cast<char>(field << 3 | 2)) + static_cast<char>(value.size()) +
         value;
}
const std::string kKind = text(1, "meta") + text(2, "ResourceDefinitions.meta.cosi.dev");

struct Question {
  const char* path;
  std::string message;
};
// Answers that cost much to make.
const Question kCostly[] = {
    {"/machine.MachineService/SystemStat", ""},
    {"/machine.MachineService/CPUInfo", ""},
    {"/machine.MachineService/LoadAvg", ""},
    {"/machine.MachineService/DiskStats", ""},
    {"/machine.MachineService/NetworkDeviceStats", ""},
    {"/machine.MachineService/CPUFreqStats", ""},
    {"/machine.MachineService/Mounts", ""},
    {"/machine.MachineService/Memory", ""},
    {"/machine.MachineService/Version", ""},
    {"/cosi.resource.State/Get", kKind + text(3, "x")},
    {"/resource.ResourceService/Get", kKind + text(3, "x")},
};
// Answers of many messages, which wait for their reader.
const Question kLongLists[] = {
    {"/cosi.resource.State/List", kKind},
    {"/resource.ResourceService/List", kKind},
    {"/machine.MachineService/ImageList", ""},
    {"/cosi.resource.State/Watch", kKind + "\x22\x02\x08\x01"},  // with the existing resources
    {"/resource.ResourceService/Watch", kKind},
};

std::string callOfNode(int32_t stream, const Question& question) {
  return headersFrame(stream, request(question.path, {{"node", kHostile.cStr()}})) +
         dataFrame(stream, grpcMessage(question.message));
}

kj::Promise<size_t> listen(kj::AsyncIoStream& stream) {
  kj::byte buffer[65'536];
  for (size_t all = 0;;) {
    auto got = co_await stream.tryRead(buffer, 1, sizeof buffer);
    if (got == 0) co_return all;
    all += got;
  }
}

// Calls on a connection that are not read or finished: once more than one client may have with one
// node, then as many as are all taken (apid/gate/forwarded-calls.h).
constexpr int32_t kTooMany = 250, kTaken = 40;

struct Evil {
  kj::AsyncIoContext& io;
  TlsEndpoint& tls;
  Tally& tally;
  unsigned turn = 0;

  int32_t number() { return ++turn % 4 == 0 ? kTooMany : kTaken; }

  kj::Promise<kj::Own<kj::AsyncIoStream>> dialGrpc() {
    auto address = co_await io.provider->getNetwork().parseAddress("10.0.0.1", kApidPort);
    co_return co_await tls.connectWithAlpn("h2", co_await address->connect(), "10.0.0.1");
  }
  // Holds the connection until the server ends it, or for `time`.
  kj::Promise<void> hold(kj::AsyncIoStream& stream, std::string bytes, kj::Duration time) {
    auto writing = stream.write(bytes.data(), bytes.size()).then([]() -> kj::Promise<size_t> {
      return kj::NEVER_DONE;
    });
    auto late = io.provider->getTimer().afterDelay(time).then([]() -> size_t { return 0; });
    co_await writing.exclusiveJoin(listen(stream)).exclusiveJoin(kj::mv(late));
  }
  kj::Promise<void> again(kj::Function<kj::Promise<void>()> once) {
    for (;;) {
      co_await once().catch_([this](kj::Exception&&) { ++tally.refused; });
      co_await io.provider->getTimer().afterDelay(20 * kj::MILLISECONDS);
    }
  }

  // A few costly calls at once, whose answers are read.
  kj::Promise<void> askMuch() {
    auto stream = co_await dialGrpc();
    std::string bytes = hello() + h2Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, bigEndian(1u << 30, 4));
    int32_t id = 1;
    for (auto& question : kCostly) {
      bytes += callOfNode(id, question);
      ++tally.attacks;
      id += 2;
    }
    co_await hold(*stream, bytes, 2 * kj::SECONDS);
  }
  // Long lists without a window for them; pings are answered.
  kj::Promise<void> takeNothing() {
    auto stream = co_await dialGrpc();
    auto bytes = kPreface + h2Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6));
    auto count = number();
    for (int32_t i = 0; i < count; ++i) {
      bytes += callOfNode(2 * i + 1, kLongLists[i % std::size(kLongLists)]);
      ++tally.attacks;
    }
    co_await hold(*stream, bytes, 5 * kj::SECONDS);
  }
  // Answers over Cap'n Proto that are read and never finished.
  kj::Promise<void> finishNothing() {
    auto stream = co_await rawStream(io, tls, "10.0.0.1", "10.0.0.1");
    ByHand calls;
    constexpr uint16_t kNode = 0, kMachine = 0;  // ordinals
    auto node = calls.call<rpc::Cluster::NodeParams>(
        0, capnp::typeId<rpc::Cluster>(), kNode, [](auto params) { params.setAddress(kHostile); });
    for (int32_t i = number(); i > 0; --i) {
      ++tally.attacks;
      calls.call<rpc::Node::MachineParams>(node, capnp::typeId<rpc::Node>(), kMachine, [](auto) {});
    }
    auto bytes = calls.bytes().asChars();
    co_await hold(*stream, std::string(bytes.begin(), bytes.size()), 5 * kj::SECONDS);
    ++tally.refused;
  }
};

kj::Promise<void> attack(kj::AsyncIoContext& io, const Authority& authority, Tally& tally) {
  auto leaf = authority.issue("", nullptr, kj::arr(kHostile));
  TlsEndpoint node(
      Credentials{kj::str(authority.pair.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
  kj::Vector<kj::Promise<void>> all;
  all.add(serveNode(io, node));
  kj::Vector<kj::Own<TlsEndpoint>> readers;
  kj::Vector<kj::Own<Evil>> evil;
  for (unsigned i = 0; i < kReaders; ++i) {
    auto name = kj::str("evil ", i);
    readers.add(kj::heap<TlsEndpoint>(authority.client(name, kj::arr("os:reader"_kj))));
    evil.add(kj::heap<Evil>(Evil{io, *readers.back(), tally}));
    auto& reader = *evil.back();
    all.add(reader.again([&reader]() { return reader.askMuch(); }));
    for (unsigned k = 0; k < 2; ++k) {
      all.add(reader.again([&reader]() { return reader.takeNothing(); }));
      all.add(reader.again([&reader]() { return reader.finishNothing(); }));
    }
  }
  co_await kj::joinPromises(all.releaseAsArray());
}

// Catches: answers of a node in foreign hands that end apid, make it grow or keep it from answering
// others, whether a reader takes them or not.
TEST_F(Pack, HostileNode) {
  OwnNetwork network;
  Authority authority;
  ApidProcess node(authority, "10.0.0.1"), other(authority, "10.0.0.2");
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) { return attack(io, authority, *tally); });
  Honest honest(*tally);
  BothProtocols callers(honest, authority);
  callers.add("10.0.0.1");
  callers.add("10.0.0.2");
  honest.run("hostile node", node.apid, kMostGrowthKiB);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
}

}  // namespace
}  // namespace talos::hostile
