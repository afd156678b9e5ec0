// Both of Talos' resource APIs, against a model of a node's store.
#include "apid/grpc/resource-messages.h"
#include "apid/grpc/test-grpc-api.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/meta-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

constexpr auto kServices = "Services.v1alpha1.talos.dev";
constexpr auto kStatuses = "MachineStatuses.runtime.talos.dev";
constexpr auto kConfigs = "MachineConfigs.config.talos.dev";
constexpr auto kNames = "HostnameSpecs.net.talos.dev";
constexpr auto kTheirNames = "HostnameStatuses.net.talos.dev";
constexpr auto kPods = "StaticPodStatuses.kubernetes.talos.dev";

struct Store {
  // A service's version by its id; a watch gets these.
  std::map<std::string, uint64_t> services{{"apid", 1}, {"etcd", 4}};
  kj::Vector<rpc::ResourceSink::Client> sinks;
  std::vector<std::string> asked;  // "sensitive MachineConfigs…"

  static void fill(rpc::Resource::Builder resource, const char* space, const char* type,
                   const std::string& id, uint64_t version) {
    auto metadata = resource.initMetadata();
    metadata.setNamespace(space);
    metadata.setType(type);
    metadata.setId(id);
    metadata.setVersion(version);
    metadata.setOwner("owner");
    metadata.setPhase(rpc::Metadata::Phase::TEARING_DOWN);
    metadata.setCreated(1'000'000'000);
    metadata.initFinalizers(1).set(0, "held");
  }
  static void fillService(rpc::Resource::Builder resource, const std::string& id,
                          uint64_t version) {
    fill(resource, "runtime", kServices, id, version);
    resource.initSpec().initAs<rpc::ServiceSpec>().setRunning(true);
  }
  void fillAll(capnp::List<rpc::Resource>::Builder list) {
    unsigned i = 0;
    for (auto& [id, version] : services) fillService(list[i++], id, version);
  }
};

class ModelResources final : public rpc::Resources::Server {
 public:
  ModelResources(Store& store, bool sensitive) : store(store), sensitive(sensitive) {}

 protected:
  kj::Promise<void> get(GetContext context) override {
    auto kind = context.getParams().getKind();
    std::string type = kind.getType().cStr(), id = context.getParams().getId().cStr();
    store.asked.push_back((sensitive ? "sensitive " : "") + type);
    auto resource = context.getResults().initResource();
    if (type == kServices) {
      auto found = store.services.find(id);
      if (found == store.services.end()) fail(ErrorKind::kNotFound, "no such service");
      Store::fillService(resource, id, found->second);
    } else if (type == kStatuses) {
      Store::fill(resource, "runtime", kStatuses, id, 2);
      auto spec = resource.initSpec().initAs<rpc::MachineStatusSpec>();
      spec.setStage("running");
      spec.initProblems(1).set(0, "service etcd is not healthy");
    } else if (type == kConfigs) {
      Store::fill(resource, "config", kConfigs, id, 2);
      resource.initSpec().initAs<rpc::MachineConfigSpec>().setDocument(
          "machine:\n  type: worker\n");
    } else if (type == kNames) {
      Store::fill(resource, "network", kNames, id, 2);
      auto spec = resource.initSpec().initAs<rpc::HostnameSpecSpec>();
      spec.setHostname("master-1");
      spec.setDomainname("example.org");
    } else if (type == kPods) {
      EXPECT_STREQ("controlplane", kind.getNamespace().cStr());
      Store::fill(resource, "controlplane", kPods, id, 2);
      resource.initSpec().initAs<rpc::StaticPodStatusSpec>().setStatus("phase: Running\n");
    } else {
      EXPECT_EQ("ResourceDefinitions.meta.cosi.dev", type);
      EXPECT_EQ("services.v1alpha1.talos.dev", id);
      Store::fill(resource, "meta", "ResourceDefinitions.meta.cosi.dev", id, 1);
      auto spec = resource.initSpec().initAs<rpc::ResourceDefinitionSpec>();
      spec.setType(kServices);
      spec.setDisplayType("Service");
      spec.setDefaultNamespace("runtime");
      spec.initAliases(1).set(0, "svc");
      auto column = spec.initPrintColumns(1)[0];
      column.setName("RUNNING");
      column.setJsonPath("{.running}");
      spec.setSensitive(true);
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> list(ListContext context) override {
    store.asked.push_back(std::string(sensitive ? "sensitive " : "") +
                          context.getParams().getKind().getType().cStr());
    store.fillAll(context.getResults().initResources(store.services.size()));
    return kj::READY_NOW;
  }
  kj::Promise<void> watch(WatchContext context) override {
    auto sink = context.getParams().getSink();
    std::string id = context.getParams().getId().cStr();
    store.sinks.add(sink);
    auto request = sink.snapshotRequest();
    if (id.empty()) {
      store.fillAll(request.initResources(store.services.size()));
    } else if (store.services.contains(id)) {
      Store::fillService(request.initResources(1)[0], id, store.services[id]);
    }
    co_await request.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }

 private:
  Store& store;
  bool sensitive;
};

class ResourceModelNode final : public rpc::Node::Server {
 public:
  explicit ResourceModelNode(Store& store) : store(store) {}

 protected:
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<ModelResources>(store, false));
    return kj::READY_NOW;
  }
  kj::Promise<void> sensitiveResources(SensitiveResourcesContext context) override {
    context.getResults().setResources(kj::heap<ModelResources>(store, true));
    return kj::READY_NOW;
  }

 private:
  Store& store;
};

struct ResourcesTest : GrpcApiTest {
  Store store;
  ResourcesTest() { cluster->nodes.insert({"", kj::heap<ResourceModelNode>(store)}); }
  ~ResourcesTest() noexcept override {
    handler = nullptr;
    store.sinks.clear();
  }

  static kj::Array<kj::byte> asking(const char* space, const char* type, const char* id = nullptr,
                                    uint32_t optionsNumber = 0, Bytes options = nullptr) {
    return request([&](WireWriter& out) {
      out.text(1, space);
      out.text(2, type);
      if (id != nullptr) out.text(3, id);
      if (optionsNumber > 0) out.bytes(optionsNumber, options);
    });
  }
  void change(rpc::Change::Event event, const char* id, uint64_t version) {
    for (auto& sink : store.sinks) {
      auto request = sink.changesRequest();
      auto change = request.initChanges(1)[0];
      change.setEvent(event);
      Store::fillService(change.initResource(), id, version);
      request.send().wait(scope);
    }
  }
  // Returns "type id/version" for each sent event of a COSI watch; "" for a response without an
  // event.
  static std::vector<std::string> events(const TestCall& call) {
    std::vector<std::string> all;
    for (size_t i = 0; i < call.sent.size(); ++i) {
      if (call.sent[i].empty()) {
        all.push_back("");
        continue;
      }
      auto event = call.message(i).in(1);
      static const char* kTypes[] = {"created", "updated", "destroyed", "bootstrapped"};
      auto metadata = event.in(1).in(1);
      all.push_back(std::string(kTypes[event.number(2)]) +
                    (event.has(1) ? " " + metadata.text(3) + "/" + metadata.text(4) : ""));
    }
    return all;
  }
};

// Catches: metadata that the client refuses (a version that is not a text, a phase with another
// name); a resource without one of its two messages.
TEST_F(ResourcesTest, Get) {
  TestCall call("/cosi.resource.State/Get", asking("runtime", kServices, "etcd"));
  EXPECT_EQ("0 ", run(call));
  auto resource = call.message(0).in(1);
  auto metadata = resource.in(1);
  EXPECT_EQ("runtime", metadata.text(1));
  EXPECT_EQ(kServices, metadata.text(2));
  EXPECT_EQ("etcd", metadata.text(3));
  EXPECT_EQ("4", metadata.text(4));
  EXPECT_EQ("owner", metadata.text(5));
  EXPECT_EQ("tearingDown", metadata.text(6));
  EXPECT_EQ(1u, metadata.in(7).number(1));
  EXPECT_EQ("held", metadata.text(9));
  EXPECT_EQ("running: true\nhealthy: false\n", resource.in(2).text(2));
  EXPECT_EQ(1u, resource.in(2).in(1).number(1)) << "running";
  TestCall absent("/cosi.resource.State/Get", asking("runtime", kServices, "nope"));
  EXPECT_EQ("5 no such service", run(absent));
}

// Catches: types that clients read as a message and that have only YAML, or another number.
TEST_F(ResourcesTest, Messages) {
  TestCall status("/cosi.resource.State/Get", asking("runtime", kStatuses, "machine"));
  EXPECT_EQ("0 ", run(status));
  auto spec = status.message(0).in(1).in(2).in(1);
  EXPECT_EQ(4u, spec.number(1)) << "running";
  EXPECT_EQ("service etcd is not healthy", spec.in(2).in(2).text(2));
  TestCall definition(
      "/cosi.resource.State/Get",
      asking("meta", "ResourceDefinitions.meta.cosi.dev", "services.v1alpha1.talos.dev"));
  EXPECT_EQ("0 ", run(definition));
  auto known = definition.message(0).in(1).in(2).in(1);
  EXPECT_EQ(kServices, known.text(1));
  EXPECT_EQ("svc", known.text(5));
  EXPECT_EQ("{.running}", known.in(6).text(2));
  EXPECT_EQ(1u, known.number(7));
  TestCall config("/cosi.resource.State/Get", asking("config", kConfigs, "v1alpha1"));
  EXPECT_EQ("0 ", run(config));
  EXPECT_EQ("machine:\n  type: worker\n", config.message(0).in(1).in(2).text(2));
  EXPECT_EQ("machine:\n  type: worker\n", config.message(0).in(1).in(2).in(1).text(1));
}

// Catches: a kind that clients know by another name and that is refused, or answered under a name
// that they did not request; a namespace of theirs that becomes one of ours for every type.
TEST_F(ResourcesTest, KindsByTheirOtherNames) {
  TestCall name("/cosi.resource.State/Get", asking("network", kTheirNames, "hostname"));
  EXPECT_EQ("0 ", run(name));
  EXPECT_EQ(std::vector<std::string>{kNames}, store.asked);
  auto hostname = name.message(0).in(1);
  EXPECT_EQ(kTheirNames, hostname.in(1).text(2));
  EXPECT_EQ("2", hostname.in(1).text(4));
  EXPECT_EQ("master-1", hostname.in(2).in(1).text(1));
  EXPECT_EQ("example.org", hostname.in(2).in(1).text(2));
  TestCall own("/cosi.resource.State/Get", asking("network", kNames, "hostname"));
  EXPECT_EQ("0 ", run(own));
  EXPECT_EQ(kNames, own.message(0).in(1).in(1).text(2));
  for (auto space : {"k8s", "controlplane"}) {
    TestCall pod("/cosi.resource.State/Get", asking(space, kPods, "kube-system/a"));
    EXPECT_EQ("0 ", run(pod)) << space;
    auto status = pod.message(0).in(1);
    EXPECT_EQ(space, status.in(1).text(1));
    EXPECT_EQ("Running", status.in(2).in(1).in(1).in(1).in(2).text(3));
  }
  TestCall services("/cosi.resource.State/Get", asking("kitchen", kServices, "etcd"));
  EXPECT_EQ("7 namespace \"kitchen\" is not supported", run(services));
  TestCall watch("/cosi.resource.State/Watch", asking("network", kTheirNames, "nope"));
  auto watching = handler->call(watch);
  EXPECT_FALSE(watching.poll(scope));
  EXPECT_EQ(kTheirNames, watch.message(1).in(1).in(1).in(1).text(2)) << "of one that is not there";
}

// Catches: secrets that are read without the capability for them.
TEST_F(ResourcesTest, SecretsAreForAdministrators) {
  TestCall service("/cosi.resource.State/Get", asking("runtime", kServices, "etcd"));
  EXPECT_EQ("0 ", run(service));
  TestCall config("/cosi.resource.State/Get", asking("config", kConfigs, "v1alpha1"));
  EXPECT_EQ("0 ", run(config));
  EXPECT_EQ((std::vector<std::string>{kServices, std::string("sensitive ") + kConfigs}),
            store.asked);
}

// Catches: a code after which a dashboard does not continue; a filter that is ignored; a write.
TEST_F(ResourcesTest, Refusals) {
  TestCall type("/cosi.resource.State/List", asking("network", "Coffees.net.talos.dev"));
  EXPECT_EQ("7 resource type \"Coffees.net.talos.dev\" is not supported", run(type));
  TestCall space("/cosi.resource.State/Watch", asking("kitchen", kServices));
  EXPECT_EQ("7 namespace \"kitchen\" is not supported", run(space));
  EXPECT_TRUE(space.sent.empty()) << "an empty response would say that it watches";
  auto filter = request([](WireWriter& out) { out.bytes(2, "\x0a\x01x"_kj.asBytes()); });
  TestCall filtered("/cosi.resource.State/List", asking("runtime", kServices, nullptr, 3, filter));
  EXPECT_EQ("12 filters and bookmarks of resources are not supported", run(filtered));
  for (uint32_t bookmark : {6, 7}) {
    auto marks = request([&](WireWriter& out) { out.varint(bookmark, 1); });
    TestCall marked("/cosi.resource.State/Watch", asking("runtime", kServices, nullptr, 4, marks));
    EXPECT_EQ("12 filters and bookmarks of resources are not supported", run(marked));
  }
  TestCall create("/cosi.resource.State/Create");
  EXPECT_EQ("7 write access is not allowed", run(create));
  TestCall several("/cosi.resource.State/List", asking("runtime", kServices));
  several.toNodes({"a", "b"});
  EXPECT_EQ("3 /cosi.resource.State/List is for one node; use the metadata \"node\"", run(several));
}

TEST_F(ResourcesTest, List) {
  TestCall call("/cosi.resource.State/List", asking("runtime", kServices));
  EXPECT_EQ("0 ", run(call));
  ASSERT_EQ(2u, call.sent.size());
  EXPECT_EQ("apid", call.message(0).in(1).in(1).text(3));
  EXPECT_EQ("etcd", call.message(1).in(1).in(1).text(3));
}

// Catches: a watch that does not confirm its start, or the end of the existing resources; a change
// that is lost, also while the watcher was too slow.
TEST_F(ResourcesTest, WatchOfAKind) {
  auto contents = request([](WireWriter& out) { out.varint(1, 1); });
  TestCall call("/cosi.resource.State/Watch", asking("runtime", kServices, nullptr, 4, contents));
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  EXPECT_EQ((std::vector<std::string>{"", "created apid/1", "created etcd/4", "bootstrapped"}),
            events(call));
  call.sent.clear();
  change(rpc::Change::Event::UPDATED, "apid", 2);
  change(rpc::Change::Event::DESTROYED, "etcd", 4);
  EXPECT_EQ((std::vector<std::string>{"updated apid/2", "destroyed etcd/undefined"}), events(call));
  EXPECT_EQ("{}\n", call.message(1).in(1).in(1).in(2).text(2)) << "empty YAML ends `get -w`";
  call.sent.clear();
  store.services = {{"kubelet", 1}};
  auto again = store.sinks[0].snapshotRequest();
  store.fillAll(again.initResources(1));
  again.send().wait(scope);
  EXPECT_EQ((std::vector<std::string>{"created kubelet/1", "destroyed apid/undefined"}),
            events(call));
}

// Catches: contents that the client did not request.
TEST_F(ResourcesTest, WatchOfChangesOnly) {
  TestCall call("/cosi.resource.State/Watch", asking("runtime", kServices));
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  EXPECT_EQ(std::vector<std::string>{""}, events(call));
  change(rpc::Change::Event::UPDATED, "apid", 2);
  EXPECT_EQ((std::vector<std::string>{"", "updated apid/2"}), events(call));
}

// Catches: a change that waits for a client that has gone, because the store still holds the sink.
TEST_F(ResourcesTest, NothingWaitsBehindTheWatch) {
  TestCall call("/cosi.resource.State/Watch", asking("runtime", kServices));
  kj::Maybe<kj::Promise<void>> sending;
  {
    auto promise = handler->call(call);
    EXPECT_FALSE(promise.poll(scope));
    call.stuck = true;
    auto request = store.sinks[0].changesRequest();
    Store::fillService(request.initChanges(1)[0].initResource(), "apid", 2);
    sending = request.send();
    EXPECT_FALSE(promise.poll(scope));
    EXPECT_EQ(1u, call.waiting);
  }
  EXPECT_EQ(0u, call.waiting);
  sending = nullptr;
}

// Catches: a watch of one missing resource that sends nothing.
TEST_F(ResourcesTest, WatchOfOne) {
  TestCall existing("/cosi.resource.State/Watch", asking("runtime", kServices, "apid"));
  auto first = handler->call(existing);
  EXPECT_FALSE(first.poll(scope));
  EXPECT_EQ((std::vector<std::string>{"", "created apid/1"}), events(existing));
  TestCall all("/cosi.resource.State/Watch",
               asking("runtime", kServices, "", 4, "\x08\x01"_kj.asBytes()));
  auto whole = handler->call(all);
  EXPECT_FALSE(whole.poll(scope));
  EXPECT_EQ("bootstrapped", events(all).back()) << "an empty id is none";
  TestCall absent("/cosi.resource.State/Watch", asking("runtime", kServices, "nope"));
  auto second = handler->call(absent);
  EXPECT_FALSE(second.poll(scope));
  EXPECT_EQ((std::vector<std::string>{"", "destroyed nope/undefined"}), events(absent));
}

// Catches: missing data that clients of 0.9 dereference: the definition first and alone, its
// columns, the node's name.
TEST_F(ResourcesTest, OldService) {
  cluster->nodes.insert({"10.0.0.2", kj::heap<ResourceModelNode>(store)});
  TestCall list("/resource.ResourceService/List", asking("", "svc"));
  list.toNodes({"10.0.0.2"});
  EXPECT_EQ("0 ", run(list));
  ASSERT_EQ(3u, list.sent.size());
  auto definition = list.message(0);
  EXPECT_EQ("10.0.0.2", definition.in(1).text(1));
  EXPECT_FALSE(definition.has(3));
  auto yaml = definition.in(2).in(2).text(1);
  EXPECT_NE(std::string::npos, yaml.find("displayType: Service\n")) << yaml;
  EXPECT_NE(std::string::npos, yaml.find("jsonPath: \"{.running}\"")) << yaml;
  auto apid = list.message(1);
  EXPECT_EQ("10.0.0.2", apid.in(1).text(1));
  EXPECT_FALSE(apid.has(2));
  EXPECT_EQ("apid", apid.in(3).in(1).text(3));
  EXPECT_EQ("tearingDown", apid.in(3).in(1).text(5));
  EXPECT_EQ("held", apid.in(3).in(1).text(6));
  EXPECT_EQ("running: true\nhealthy: false\n", apid.in(3).in(2).text(1));
  TestCall get("/resource.ResourceService/Get", asking("", "services", "etcd"));
  EXPECT_EQ("0 ", run(get));
  EXPECT_EQ("etcd", get.message(0).in(1).in(3).in(1).text(3));
  EXPECT_TRUE(get.message(0).in(1).has(2));
  TestCall unknown("/resource.ResourceService/Get", asking("", "coffee", "x"));
  EXPECT_EQ("5 ", run(unknown).substr(0, 2));
  TestCall watch("/resource.ResourceService/Watch", asking("", "svc"));
  auto watching = handler->call(watch);
  EXPECT_FALSE(watching.poll(scope));
  ASSERT_EQ(3u, watch.sent.size());
  EXPECT_TRUE(watch.message(0).has(3));
  EXPECT_FALSE(watch.message(0).has(4));
  change(rpc::Change::Event::UPDATED, "apid", 2);
  EXPECT_EQ(1u, watch.message(3).number(2));
  EXPECT_EQ("2", watch.message(3).in(4).in(1).text(4));
}

// Catches: answers of a node that stay in calls whose client does not read, a hundred times its
// limit; answers that count although they were read.
TEST_F(ResourcesTest, HeldAnswersCountAgainstTheirClient) {
  for (unsigned i = 0; i < 1000; ++i) store.services["service-" + std::to_string(i)] = 1;
  Budget budget({.perClient = 1u << 20, .inTotal = 1u << 30});
  auto account = budget.account("someone");
  handler = api.open(timer, client, kj::addRef(*account));
  auto free = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  struct Row {
    const char* path;
    kj::Array<kj::byte> request;
  };
  Row rows[] = {
      {"/cosi.resource.State/List", asking("runtime", kServices)},
      {"/resource.ResourceService/List", asking("runtime", kServices)},
      {"/cosi.resource.State/Watch",
       asking("runtime", kServices, "", 4, request([](auto& out) { out.varint(1, 1); }))},
      {"/resource.ResourceService/Watch", asking("runtime", kServices)},
  };
  for (auto& row : rows) {
    std::vector<kj::Own<TestCall>> calls;
    std::vector<kj::Promise<std::string>> pending;
    for (unsigned i = 0; i < 20; ++i) {
      calls.push_back(kj::heap<TestCall>(row.path, row.request));
      calls.back()->stuck = true;
      pending.push_back(handler->call(*calls.back()).then([](grpc::GrpcStatus&& status) {
        return std::string(kj::str(status.code, " ", status.message).cStr());
      }));
    }
    unsigned refused = 0;
    for (auto& call : pending) {
      if (!call.poll(scope)) continue;
      EXPECT_EQ("8 the calls of this client use more than 1048576 bytes, over all its connections",
                call.wait(scope))
          << row.path;
      ++refused;
    }
    EXPECT_GT(refused, 10u) << row.path << ": each answer has 200 KiB";
    EXPECT_LT(refused, 18u) << row.path;
    pending.clear();
    store.sinks.clear();
    scope.poll();
    EXPECT_TRUE(free(1u << 20)) << row.path;
  }
  handler = nullptr;
}

// Catches: a watch whose state is charged twice whenever it grows, so that it ends at half of its
// client's limit.
TEST_F(ResourcesTest, TheStateOfAWatchIsChargedOnce) {
  Budget budget({.perClient = 1u << 20, .inTotal = 1u << 30});
  auto account = budget.account("someone");
  handler = api.open(timer, client, kj::addRef(*account));
  TestCall call("/cosi.resource.State/Watch", asking("runtime", kServices));
  auto promise = handler->call(call);
  EXPECT_FALSE(promise.poll(scope));
  for (unsigned i = 0; i < 8; ++i) {
    change(rpc::Change::Event::UPDATED, std::string(100'000, 'a' + i).c_str(), 1);
  }
  EXPECT_FALSE(promise.poll(scope));
  auto free = [&](size_t bytes) {
    return kj::runCatchingExceptions([&]() { account->hold(bytes); }) == nullptr;
  };
  EXPECT_TRUE(free(200'000));
  EXPECT_FALSE(free(300'000)) << "it knows eight ids";
  promise = nullptr;
  handler = nullptr;
}

// Catches: a resource that becomes a thousand times larger as YAML, or as a message, than it was on
// arrival.
TEST_F(ResourcesTest, TheTextOfAResourceIsBounded) {
  capnp::MallocMessageBuilder message;
  auto resource = message.initRoot<rpc::Resource>();
  auto type = "ResourceDefinitions.meta.cosi.dev";
  Store::fill(resource, "meta", type, "hostile", 1);
  resource.initSpec().initAs<rpc::ResourceDefinitionSpec>().initPrintColumns(400'000);
  ResourceMessages messages;
  for (bool cosi : {false, true}) {
    auto e = kj::runCatchingExceptions([&] {
      cosi ? messages.cosi(resource.asReader(), {"meta", type}) : messages.old(resource.asReader());
    });
    auto& refusal = KJ_REQUIRE_NONNULL(e, "it was written");
    EXPECT_STREQ(cosi ? "the node has sent a list of 400000 items; at most 65536 are read"
                      : "the value needs more than 8388608 bytes as YAML",
                 messageOf(refusal).cStr());
  }
  resource.getSpec().getAs<rpc::ResourceDefinitionSpec>().initPrintColumns(1000);
  EXPECT_GT(messages.old(resource.asReader()).size(), 10'000u);
}

}  // namespace
}  // namespace talos::grpcapi
