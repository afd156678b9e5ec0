// Methods with code, against models of the parts of a node that they ask.
#include <zlib.h>

#include "apid/edge/test-edge.h"
#include "common/config/talosconfig.h"
#include "rpc/types.capnp.h"

namespace talos::edge {
namespace {

using namespace testing;

// What the node was asked, and what it says.
struct World {
  rpc::ApplyMode mode = rpc::ApplyMode::AUTO;
  std::string document;
  bool dryRun = false;
  uint64_t tryTimeoutMs = 0, lifetimeS = 0;
  std::vector<std::string> labels, roles;
  int resets = 0;
  bool graceful = false, reboot = false;
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  kj::Maybe<rpc::EventSink::Client> events;
  kj::Maybe<rpc::ResourceSink::Client> statuses;
  int64_t tail = 0;
  kj::ForkedPromise<void> mayTell =
      kj::Promise<void>(kj::READY_NOW).fork();  // the machine's status
};

class HandMachine final : public rpc::Machine::Server {
 public:
  explicit HandMachine(World& world) : world(world) {}

 protected:
  kj::Promise<void> memory(MemoryContext context) override {
    auto fields = context.getResults().initFields(4);
    auto set = [&](unsigned i, const char* name, uint64_t value) {
      fields[i].setName(name);
      fields[i].setValue(value);
    };
    set(0, "MemTotal", 100);
    set(1, "Active(anon)", 9);
    set(2, "HugePages_Total", 41);
    set(3, "SecPageTables", 7);  // newer than the original
    return kj::READY_NOW;
  }
  kj::Promise<void> netstat(NetstatContext context) override {
    auto sockets = context.getResults().initSockets(3);
    sockets[0].setProtocol("tcp");
    sockets[0].setState("LISTEN");
    sockets[0].setLocalPort(50000);
    sockets[1].setProtocol("tcp");
    sockets[1].setState("ESTABLISHED");
    sockets[1].setRemotePort(443);
    sockets[1].setPid(7);
    sockets[1].setProgram("kubelet");
    sockets[2].setProtocol("udp");
    return kj::READY_NOW;
  }
  kj::Promise<void> dependencies(DependenciesContext context) override {
    auto controller = context.getResults().initControllers(1)[0];
    controller.setName("networkd");
    auto input = controller.initReads(1)[0];
    input.setNamespace("network");
    input.setType("LinkSpecs.net.talos.dev");
    controller.initWrites(1).set(0, "LinkStatuses.net.talos.dev");
    return kj::READY_NOW;
  }
  kj::Promise<void> kubeconfig(KubeconfigContext context) override {
    auto text = kj::str(kj::repeat('k', 100'000));
    context.getResults().setKubeconfig(text.asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> clientCertificate(ClientCertificateContext context) override {
    auto params = context.getParams();
    pki::LeafOptions options;
    for (auto role : params.getRoles()) world.roles.push_back(role.cStr());
    world.lifetimeS = params.getLifetimeS();
    auto results = context.getResults();
    auto request = kj::heapString(params.getRequest().asChars());
    results.setCa(world.authority.certificate.asBytes());
    results.setCertificate(
        pki::signRequest(world.authority.certificate, world.authority.key, request, kj::mv(options))
            .asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> reset(ResetContext context) override {
    auto params = context.getParams();
    ++world.resets;
    world.graceful = params.getGraceful();
    world.reboot = params.getReboot();
    for (auto label : params.getLabels()) world.labels.push_back(label.cStr());
    return kj::READY_NOW;
  }

 private:
  World& world;
};

class HandConfiguration final : public rpc::Configuration::Server {
 public:
  explicit HandConfiguration(World& world) : world(world) {}

 protected:
  kj::Promise<void> apply(ApplyContext context) override {
    auto request = context.getParams().getRequest();
    world.mode = request.getMode();
    world.document =
        std::string(request.getDocument().asChars().begin(), request.getDocument().size());
    world.dryRun = request.getDryRun();
    world.tryTimeoutMs = request.getTryTimeoutMs();
    auto result = context.getResults().initResult();
    bool automatic = request.getMode() == rpc::ApplyMode::AUTO;
    result.setMode(automatic ? rpc::ApplyMode::NO_REBOOT : request.getMode());
    result.setRevertsInMs(world.tryTimeoutMs);
    result.initWarnings(1).set(0, "a warning");
    result.setDiff("- a\n+ b\n");
    return kj::READY_NOW;
  }
  kj::Promise<void> generate(GenerateContext context) override {
    auto request = context.getParams().getRequest();
    EXPECT_STREQ("one", request.getClusterName().cStr());
    EXPECT_STREQ("https://10.0.0.1:6443", request.getEndpoint().cStr());
    EXPECT_STREQ("/dev/vda", request.getInstallDisk().cStr());
    auto documents = context.getResults().initDocuments(3);
    auto set = [&](unsigned i, const char* name) {
      documents[i].setName(name);
      documents[i].setContent(kj::str("content of ", name).asBytes());
    };
    set(0, "controlplane.yaml");
    set(1, "join.yaml");
    set(2, "talosconfig");
    return kj::READY_NOW;
  }

 private:
  World& world;
};

class HandFiles final : public rpc::Files::Server {
 protected:
  kj::Promise<void> read(ReadContext context) override {
    auto path = context.getParams().getPath();
    auto sink = context.getParams().getSink();
    kj::StringPtr parts[2] = {};
    if (path == "/proc/loadavg") parts[0] = "0.5 0.", parts[1] = "25 0.125 1/1 1\n";
    if (path == "/proc/net/dev") {
      parts[0] = "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 ";
      parts[1] = "13 14 15 16\n";
    }
    if (parts[0] == nullptr)
      fail(ErrorKind::kPermissionDenied, "Files.read needs the role os:admin");
    for (auto part : parts) {
      auto request = sink.writeRequest();
      request.setBytes(part.asBytes());
      co_await request.send();
    }
  }
  kj::Promise<void> copy(CopyContext context) override {
    auto request = context.getParams().getSink().writeRequest();
    request.setBytes("archive"_kj.asBytes());
    co_await request.send();
    if (context.getParams().getPath() == "/proc") {
      context.getResults().initUnreadable(1).set(0, "/proc/kmsg");
    }
  }
};

class HandEvents final : public rpc::Events::Server {
 public:
  explicit HandEvents(World& world) : world(world) {}

 protected:
  kj::Promise<void> watch(WatchContext context) override {
    world.events = context.getParams().getSink();
    auto tail = context.getParams().getTail();
    world.tail = tail.isLast() ? tail.getLast() : tail.isSeconds() ? tail.getSeconds() : 0;
    return kj::NEVER_DONE;
  }

 private:
  World& world;
};

class HandResources final : public rpc::Resources::Server {
 public:
  explicit HandResources(World& world) : world(world) {}
  static void fill(rpc::Resource::Builder resource, const char* stage, bool ready) {
    auto metadata = resource.initMetadata();
    metadata.setId("machine");
    auto spec = resource.initSpec().initAs<rpc::MachineStatusSpec>();
    spec.setStage(stage);
    spec.setReady(ready);
  }

 protected:
  kj::Promise<void> watch(WatchContext context) override {
    EXPECT_STREQ("machine", context.getParams().getId().cStr());
    auto sink = context.getParams().getSink();
    world.statuses = sink;
    co_await world.mayTell.addBranch();
    auto request = sink.snapshotRequest();
    fill(request.initResources(1)[0], "running", true);
    co_await request.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }

 private:
  World& world;
};

class HandNode final : public rpc::Node::Server {
 public:
  explicit HandNode(World& world) : world(world) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<HandMachine>(world));
    return kj::READY_NOW;
  }
  kj::Promise<void> configuration(ConfigurationContext context) override {
    context.getResults().setConfiguration(kj::heap<HandConfiguration>(world));
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(kj::heap<HandFiles>());
    return kj::READY_NOW;
  }
  kj::Promise<void> events(EventsContext context) override {
    context.getResults().setEvents(kj::heap<HandEvents>(world));
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<HandResources>(world));
    return kj::READY_NOW;
  }

 private:
  World& world;
};

struct ByHandTest : EdgeTest {
  World world;
  ByHandTest() { cluster->nodes.insert({"", kj::heap<HandNode>(world)}); }
  ~ByHandTest() noexcept override {
    handler = nullptr;
    world.events = nullptr;
    world.statuses = nullptr;
  }
};

// Catches: a number of MemInfo that is another field's, and one for what the original has not.
TEST_F(ByHandTest, Memory) {
  TestCall call("/machine.MachineService/Memory");
  EXPECT_EQ("0 ", run(call));
  auto memory = call.message(0).in(1).in(2);
  EXPECT_EQ(3u, memory.fields.size());
  EXPECT_EQ(100u, memory.number(1));
  EXPECT_EQ(9u, memory.number(9));
  EXPECT_EQ(41u, memory.number(41));
}

// Catches: sockets that were not asked for, a process that a client follows blindly, networks that
// nobody here looks into and whose sockets are then none.
TEST_F(ByHandTest, Netstat) {
  auto sockets = [&](uint64_t which, bool tcpOnly) {
    TestCall call("/machine.MachineService/Netstat", request([&](WireWriter& out) {
                    out.varint(1, which);
                    if (tcpOnly) out.bytes(3, "\x08\x01"_kj.asBytes());
                  }));
    EXPECT_EQ("0 ", run(call));
    return call.message(0).in(1);
  };
  auto all = sockets(0, false);
  ASSERT_EQ(3u, all.count(2));
  EXPECT_EQ(10u, all.in(2, 0).number(6));
  EXPECT_TRUE(all.in(2, 0).has(17)) << "the process";
  EXPECT_EQ("kubelet", all.in(2, 1).in(17).text(2));
  EXPECT_EQ(7u, all.in(2, 2).number(6)) << "UDP";
  EXPECT_EQ(2u, sockets(0, true).count(2));
  EXPECT_EQ(1u, sockets(1, false).count(2)) << "connected";
  EXPECT_EQ(1u, sockets(2, true).count(2)) << "listening";
  TestCall pods("/machine.MachineService/Netstat",
                request([](WireWriter& out) { out.bytes(4, "\x18\x01"_kj.asBytes()); }));
  EXPECT_EQ("12 this node tells the sockets of its own network alone", run(pods));
}

TEST_F(ByHandTest, Dependencies) {
  TestCall call("/inspect.InspectService/ControllerRuntimeDependencies");
  EXPECT_EQ("0 ", run(call));
  auto edges = call.message(0).in(1);
  ASSERT_EQ(2u, edges.count(2));
  EXPECT_EQ("LinkStatuses.net.talos.dev", edges.in(2, 0).text(4));
  EXPECT_EQ(0u, edges.in(2, 0).number(2));
  EXPECT_EQ("LinkSpecs.net.talos.dev", edges.in(2, 1).text(4));
  EXPECT_EQ(2u, edges.in(2, 1).number(2));
}

// Catches: a counter's method that reads another file, or only a part of it; zeros for what the
// caller may not read.
TEST_F(ByHandTest, Counters) {
  TestCall load("/machine.MachineService/LoadAvg");
  EXPECT_EQ("0 ", run(load));
  EXPECT_EQ(0.25, doubleOf(load.message(0).in(1).number(3)));
  TestCall network("/machine.MachineService/NetworkDeviceStats");
  EXPECT_EQ("0 ", run(network));
  EXPECT_EQ(16u, network.message(0).in(1).in(3).number(17));
  TestCall refused("/machine.MachineService/CPUInfo");
  EXPECT_EQ("7 not authorized: Files.read needs the role os:admin", run(refused));
}

// Catches: an archive that ends well although files are missing in it.
TEST_F(ByHandTest, Copy) {
  TestCall all("/machine.MachineService/Copy",
               request([](WireWriter& out) { out.text(1, "/var"); }));
  EXPECT_EQ("0 ", run(all));
  ASSERT_EQ(1u, all.sent.size());
  EXPECT_EQ("archive", all.message(0).text(2));
  TestCall some("/machine.MachineService/Copy",
                request([](WireWriter& out) { out.text(1, "/proc"); }));
  EXPECT_EQ("0 ", run(some));
  ASSERT_EQ(2u, some.sent.size());
  EXPECT_NE(std::string::npos, some.message(1).in(1).text(2).find("/proc/kmsg"));
}

// Catches: a kubeconfig that is not in an archive, or not whole.
TEST_F(ByHandTest, Kubeconfig) {
  TestCall call("/machine.MachineService/Kubeconfig");
  EXPECT_EQ("0 ", run(call));
  std::string packed;
  for (size_t i = 0; i < call.sent.size(); ++i) packed += call.message(i).text(2);
  std::string tar(1 << 20, '\0');
  z_stream z{};
  ASSERT_EQ(Z_OK, inflateInit2(&z, 16 + MAX_WBITS));
  z.next_in = reinterpret_cast<Bytef*>(packed.data());
  z.avail_in = packed.size();
  z.next_out = reinterpret_cast<Bytef*>(tar.data());
  z.avail_out = tar.size();
  EXPECT_EQ(Z_STREAM_END, inflate(&z, Z_FINISH));
  tar.resize(z.total_out);
  inflateEnd(&z);
  EXPECT_EQ("kubeconfig", std::string(tar.c_str()));
  EXPECT_EQ("0000600", std::string(tar.c_str() + 100));
  EXPECT_EQ(0u, tar.size() % 512);
  EXPECT_EQ(std::string(100'000, 'k'), tar.substr(512, 100'000));
  EXPECT_EQ(std::string(1024, '\0'), tar.substr(tar.size() - 1024)) << "the end of an archive";
}

// Catches: a config that is applied in another mode than the client says, of any age; answers that
// scripts do not match.
TEST_F(ByHandTest, ApplyConfiguration) {
  auto apply = [&](std::initializer_list<std::pair<uint32_t, uint64_t>> marks) {
    TestCall call("/machine.MachineService/ApplyConfiguration", request([&](WireWriter& out) {
                    out.text(1, "machine: {}\n");
                    for (auto& [number, value] : marks) out.varint(number, value);
                    out.bytes(6, "\x08\x05"_kj.asBytes());
                  }));
    EXPECT_EQ("0 ", run(call));
    return call.message(0).in(1);
  };
  auto plain = apply({});
  EXPECT_EQ(rpc::ApplyMode::REBOOT, world.mode);
  EXPECT_EQ("machine: {}\n", world.document);
  EXPECT_EQ(5000u, world.tryTimeoutMs);
  EXPECT_EQ("a warning", plain.text(2));
  EXPECT_EQ("Applied configuration with a reboot", plain.text(4));
  apply({{2, 1}, {3, 1}});
  EXPECT_EQ(rpc::ApplyMode::NO_REBOOT, world.mode) << "immediate of 0.9 wins";
  apply({{2, 1}});
  EXPECT_EQ(rpc::ApplyMode::STAGED, world.mode);
  auto automatic = apply({{4, 1}});
  EXPECT_EQ(rpc::ApplyMode::AUTO, world.mode);
  EXPECT_EQ(2u, automatic.number(3));
  EXPECT_EQ("Applied configuration without a reboot", automatic.text(4));
  auto trial = apply({{4, 4}});
  EXPECT_EQ(rpc::ApplyMode::TRY, world.mode);
  EXPECT_EQ("The config is applied in 'try' mode and will be reverted in 5s", trial.text(4));
  EXPECT_FALSE(world.dryRun);
  auto dry = apply({{4, 2}, {5, 1}});
  EXPECT_TRUE(world.dryRun);
  EXPECT_NE(std::string::npos, dry.text(4).find("(skipped in dry-run)"));
  EXPECT_NE(std::string::npos, dry.text(4).find("+ b"));
  TestCall unknown("/machine.MachineService/ApplyConfiguration",
                   request([](WireWriter& out) { out.varint(4, 9); }));
  EXPECT_EQ("3 9 is not a mode of applying a config", run(unknown));
}

TEST_F(ByHandTest, GenerateConfiguration) {
  auto asked = [](bool interfaces) {
    return request([&](WireWriter& out) {
      WireWriter cluster, plane, machine, install;
      plane.text(1, "https://10.0.0.1:6443");
      cluster.text(1, "one");
      cluster.bytes(2, plane.written());
      install.text(1, "/dev/vda");
      machine.varint(1, 3);
      machine.bytes(2, install.written());
      if (interfaces) machine.bytes(3, "\x0a\x01x"_kj.asBytes());
      out.bytes(2, cluster.written());
      out.bytes(3, machine.written());
    });
  };
  TestCall call("/machine.MachineService/GenerateConfiguration", asked(false));
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ("content of join.yaml", call.message(0).in(1).text(2));
  EXPECT_EQ("content of talosconfig", call.message(0).in(1).text(3));
  TestCall network("/machine.MachineService/GenerateConfiguration", asked(true));
  EXPECT_EQ("12 this node has no network", run(network)) << "it would be without its addresses";
}

// Catches: a certificate that is not for the key, without the roles, or for another time.
TEST_F(ByHandTest, GenerateClientConfiguration) {
  TestCall call("/machine.MachineService/GenerateClientConfiguration", request([](WireWriter& out) {
                  out.text(1, "os:reader");
                  out.bytes(2, "\x08\x90\x1c"_kj.asBytes());
                }));
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ(std::vector<std::string>{"os:reader"}, world.roles);
  EXPECT_EQ(3600u, world.lifetimeS);
  auto reply = call.message(0).in(1);
  auto made = Talosconfig::parse(kj::StringPtr(reply.text(5).c_str()), "talosconfig");
  auto& context = made.resolve();
  pki::checkPair(context.certificate, context.key);
  EXPECT_EQ(reply.text(3), context.certificate.cStr());
  EXPECT_EQ(reply.text(2), world.authority.certificate.cStr());
}

// Catches: a request that becomes many times its size in memory, before anybody asks for a role.
TEST_F(ByHandTest, NotMoreThanThereAre) {
  auto times = [](uint32_t field, size_t count) {
    return request([&](WireWriter& out) {
      for (size_t i = 0; i < count; ++i) out.bytes(field, nullptr);
    });
  };
  TestCall most("/machine.MachineService/GenerateClientConfiguration", times(1, 64));
  EXPECT_EQ("0 ", run(most));
  EXPECT_EQ(64u, world.roles.size());
  TestCall roles("/machine.MachineService/GenerateClientConfiguration", times(1, 65));
  EXPECT_EQ("3 field 1 is there 65 times; at most 64 are read", run(roles));
  TestCall labels("/machine.MachineService/Reset", times(3, 65));
  EXPECT_EQ("3 field 3 is there 65 times; at most 64 are read", run(labels));
  EXPECT_EQ(64u, world.roles.size());
  EXPECT_EQ(0, world.resets);
}

// Catches: a reset that erases more than the client says.
TEST_F(ByHandTest, Reset) {
  auto reset = [&](kj::Function<void(WireWriter&)> fill) {
    TestCall call("/machine.MachineService/Reset", request(kj::mv(fill)));
    return run(call);
  };
  auto partition = [](WireWriter& out, const char* label, bool wipe) {
    WireWriter one;
    one.text(1, label);
    if (wipe) one.varint(2, 1);
    out.bytes(3, one.written());
  };
  EXPECT_EQ("0 ", reset([&](WireWriter& out) {
              out.varint(1, 1);
              partition(out, "STATE", false);
              partition(out, "EPHEMERAL", true);
            }));
  EXPECT_EQ(std::vector<std::string>{"EPHEMERAL"}, world.labels);
  EXPECT_TRUE(world.graceful);
  EXPECT_FALSE(world.reboot);
  EXPECT_EQ("3 none of the partitions is to be wiped",
            reset([&](WireWriter& out) { partition(out, "STATE", false); }));
  EXPECT_EQ("12 a reset of this node erases no user disks",
            reset([](WireWriter& out) { out.text(4, "/dev/vdb"); }));
  EXPECT_EQ("12 a reset of this node erases no user disks",
            reset([](WireWriter& out) { out.varint(5, 2); }));
  EXPECT_EQ(1, world.resets);
}

// "TaskEvent id" of each.
std::vector<std::string> kindsOf(const TestCall& call) {
  std::vector<std::string> all;
  for (size_t i = 0; i < call.sent.size(); ++i) {
    auto url = call.message(i).in(2).text(1);
    all.push_back(url.substr(url.find('.') + 1) + " " + call.message(i).text(3));
  }
  return all;
}

// Catches: the first event that clients wait for, kinds that no client knows, actions with the
// numbers of ours, a status that was not asked for: a client would take it for the end of a reboot.
TEST_F(ByHandTest, Events) {
  TestCall call("/machine.MachineService/Events");
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  ASSERT_EQ(1u, call.sent.size());
  EXPECT_TRUE(call.sent[0].empty());
  auto request = KJ_ASSERT_NONNULL(world.events).eventsRequest();
  auto events = request.initEvents(4);
  events[0].setId("a");
  auto sequence = events[0].initSequence();
  sequence.setSequence("boot");
  sequence.setAction(rpc::Action::STOP);
  sequence.setError("it failed");
  events[1].setId("b");
  events[1].initNetwork().setLink("eth0");
  events[2].setId("c");
  auto task = events[2].initTask();
  task.setName("stopAllServices");
  task.setAction(rpc::Action::STOP);
  events[3].setId("d");
  auto service = events[3].initService();
  service.setService("apid");
  service.setState(rpc::ServiceState::RUNNING);
  request.send().wait(scope);
  EXPECT_EQ(
      (std::vector<std::string>{" ", "SequenceEvent a", "TaskEvent c", "ServiceStateEvent d"}),
      kindsOf(call));
  auto any = call.message(1).in(2);
  EXPECT_EQ("talos/runtime/machine.SequenceEvent", any.text(1));
  EXPECT_EQ(2u, any.in(2).number(2));
  EXPECT_EQ("it failed", any.in(2).in(3).text(2));
  EXPECT_EQ(1u, call.message(2).in(2).in(2).number(2)) << "stop";
  EXPECT_EQ(3u, call.message(3).in(2).in(2).number(2));
  EXPECT_TRUE(call.message(3).in(2).in(2).has(4)) << "health";
  auto change = KJ_ASSERT_NONNULL(world.statuses).changesRequest();
  auto one = change.initChanges(1)[0];
  one.setEvent(rpc::Change::Event::UPDATED);
  HandResources::fill(one.initResource(), "rebooting", false);
  change.send().wait(scope);
  ASSERT_EQ(5u, call.sent.size());
  EXPECT_EQ("MachineStatusEvent ", kindsOf(call)[4]);
  EXPECT_EQ(5u, call.message(4).in(2).in(2).number(1));
  EXPECT_TRUE(call.message(4).in(2).in(2).has(2)) << "a client follows it blindly";
}

// Catches: a client that is told "I watch" before anybody does, and misses what it waits for; an
// event that comes before that; a node that cannot be reached and is said to be watched.
TEST_F(ByHandTest, EventsBeginWhenTheyAreWatched) {
  auto told = kj::newPromiseAndFulfiller<void>();
  world.mayTell = told.promise.fork();
  TestCall call("/machine.MachineService/Events");
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  auto request = KJ_ASSERT_NONNULL(world.events).eventsRequest();
  auto event = request.initEvents(1)[0];
  event.setId("a");
  event.initTask();
  auto early = request.send();
  EXPECT_FALSE(promise.poll(scope));
  EXPECT_TRUE(call.sent.empty());
  told.fulfiller->fulfill();
  early.wait(scope);
  EXPECT_EQ((std::vector<std::string>{" ", "TaskEvent a"}), kindsOf(call));
  TestCall away("/machine.MachineService/Events");
  away.toNode("10.0.0.9");
  EXPECT_EQ("14 cannot connect to 10.0.0.9:50000", run(away));
  EXPECT_TRUE(away.sent.empty());
}

// Catches: a past that was asked for and is not told.
TEST_F(ByHandTest, EventsOfThePast) {
  TestCall call("/machine.MachineService/Events",
                request([](WireWriter& out) { out.varint(1, signExtended(-1)); }));
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  EXPECT_EQ(-1, world.tail);
  ASSERT_EQ(2u, call.sent.size());
  auto status = call.message(1).in(2).in(2);
  EXPECT_EQ(4u, status.number(1));
  EXPECT_EQ(1u, status.in(2).number(1)) << "ready";
  TestCall two("/machine.MachineService/Events", request([](WireWriter& out) {
                 out.varint(1, 5);
                 out.text(2, "a");
               }));
  EXPECT_EQ("3 use one of tail_events, tail_id and tail_seconds", run(two));
}

}  // namespace
}  // namespace talos::edge
