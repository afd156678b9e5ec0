// Models of a node beside machined's own servers: they refuse the same calls with the same kind of
// error. A model answers Unimplemented to calls that it lacks.
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <signal.h>

#include <string>
#include <vector>

#include "apid/grpc/test-machine-model.h"
#include "apid/grpc/test-node-model.h"
#include "common/base/error.h"
#include "rpc/node.capnp.h"
#include "talosctl/commands/test-node.h"
#include "tests/contracts/schema-comments.h"
#include "tests/testbeds/machined-testbed.h"

namespace talos {
namespace {

class DiscardingLogSink final : public rpc::LogSink::Server {
  kj::Promise<void> write(WriteContext) override { return kj::READY_NOW; }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }
};
class DiscardingEventSink final : public rpc::EventSink::Server {
  kj::Promise<void> events(EventsContext) override { return kj::READY_NOW; }
};
class DiscardingResourceSink final : public rpc::ResourceSink::Server {
  kj::Promise<void> snapshot(SnapshotContext) override { return kj::READY_NOW; }
};

// Kind of a call that a model lacks; the model says so itself, and no test can have relied on it.
constexpr const char* kLacks = "lacks it";

struct Outcome {
  std::string method;  // Services.kill
  std::string kind;    // of the error; "ok"; kLacks
};

// Calls that a node refuses, with the kind of error of each. They are made to machined's own
// servers, and to the models of a node that tests use.
class NodeRefusals {
 public:
  // `service`: a service of the node.
  NodeRefusals(kj::AsyncIoContext& io, rpc::Node::Client node, kj::StringPtr service)
      : io(io), node(kj::mv(node)), service(service) {}

  std::vector<Outcome> all() {
    ofServices();
    ofStreams();
    ofResources();
    return kj::mv(outcomes);
  }

 private:
  kj::AsyncIoContext& io;
  rpc::Node::Client node;
  kj::StringPtr service;
  std::vector<Outcome> outcomes;

  template <typename Request>
  void note(const char* method, Request&& request) {
    auto failure = kj::runCatchingExceptions([&] {
      io.provider->getTimer()
          .timeoutAfter(10 * kj::SECONDS, request.send().ignoreResult())
          .wait(io.waitScope);
    });
    std::string kind = "ok";
    KJ_IF_MAYBE (e, failure) {
      bool lacks = e->getType() == kj::Exception::Type::UNIMPLEMENTED;
      kind = lacks ? kLacks : nameOf(kindOf(*e)).cStr();
    }
    outcomes.push_back({method, kind});
  }

  void ofServices() {
    auto services = node.servicesRequest().send().getServices();
    auto named = [](auto request, kj::StringPtr id) {
      request.setId(id);
      return request;
    };
    note("Services.start", named(services.startRequest(), "nothing"));
    note("Services.stop", named(services.stopRequest(), "nothing"));
    note("Services.restart", named(services.restartRequest(), "nothing"));
    for (auto signal : {0, 1000, SIGSTOP}) {
      auto request = named(services.killRequest(), service);
      request.setSignal(signal);
      note("Services.kill", kj::mv(request));
    }
    auto kill = named(services.killRequest(), "nothing");
    kill.setSignal(SIGTERM);
    note("Services.kill", kj::mv(kill));
    note("Services.setLogLevel", named(services.setLogLevelRequest(), "nothing"));
    note("Services.stack", named(services.stackRequest(), "nothing"));
    note("Services.keepCores", named(services.keepCoresRequest(), "nothing"));
    auto core = services.coreRequest();
    core.setReport("nothing");
    note("Services.core", kj::mv(core));
    auto remove = services.removeCrashRequest();
    remove.setReport("nothing");
    note("Services.removeCrash", kj::mv(remove));
  }

  void ofStreams() {
    auto read = node.logsRequest().send().getLogs().readRequest();
    read.setId("nothing");
    read.setSink(kj::heap<DiscardingLogSink>());
    note("Logs.read", kj::mv(read));
    auto watch = node.eventsRequest().send().getEvents().watchRequest();
    watch.initTail().setAfter("no event");
    watch.setOnce(true);
    watch.setSink(kj::heap<DiscardingEventSink>());
    note("Events.watch", kj::mv(watch));
  }

  void ofResources() {
    auto resources = node.resourcesRequest().send().getResources();
    auto ofKind = [](auto request, kj::StringPtr ns, kj::StringPtr type) {
      auto kind = request.initKind();
      kind.setNamespace(ns);
      kind.setType(type);
      return request;
    };
    struct Wrong {
      kj::StringPtr ns, type;
    };
    for (auto& [ns, type] : {Wrong{"", "nonsense"}, Wrong{"nowhere", "services"}, Wrong{"", "as"},
                             Wrong{"", "rootsecrets"}}) {
      note("Resources.list", ofKind(resources.listRequest(), ns, type));
      auto get = ofKind(resources.getRequest(), ns, type);
      get.setId("x");
      note("Resources.get", kj::mv(get));
      auto watch = ofKind(resources.watchRequest(), ns, type);
      watch.setSink(kj::heap<DiscardingResourceSink>());
      note("Resources.watch", kj::mv(watch));
    }
    auto get = ofKind(resources.getRequest(), "", "services");
    get.setId("nothing");
    note("Resources.get", kj::mv(get));
  }
};

std::vector<Outcome> refusalsOfMachined() {
  auto io = kj::setupAsyncIo();
  testbeds::MachinedTestbed bed(io, io.provider->getTimer());
  auto machined = bed.open().castAs<rpc::Machined>();
  return NodeRefusals(io, machined.nodeRequest().send().getNode(), "probe").all();
}

// At least `least` of the calls must be the model's own: a model that lacks all of them would
// agree.
void expectSame(const std::vector<Outcome>& real, const std::vector<Outcome>& model, size_t least) {
  ASSERT_EQ(real.size(), model.size());
  size_t own = 0;
  for (auto i : kj::indices(real)) {
    if (model[i].kind == kLacks) continue;
    ++own;
    EXPECT_EQ(real[i].kind, model[i].kind) << real[i].method << ", call " << i;
  }
  EXPECT_LE(least, own);
}

// Catches: a model that does what a node refuses, or refuses it with another error, so that a
// command is never tested with the error that its user will get.
TEST(NodeContract, TheModelOfTheCommandsRefusesWhatANodeRefuses) {
  auto real = refusalsOfMachined();
  auto io = kj::setupAsyncIo();
  talosctl::FakeNode fake;
  fake.serviceIds.add(kj::str("apid"));
  expectSame(real, NodeRefusals(io, kj::heap<talosctl::FakeNodeServer>(fake), "apid").all(), 14);
}

// Catches: differences between a node's refusals and those of the models that test apid's gRPC API,
// whose status codes depend on the kinds of these refusals.
TEST(NodeContract, TheModelsOfTheGrpcApiRefuseWhatANodeRefuses) {
  auto real = refusalsOfMachined();
  auto io = kj::setupAsyncIo();
  {
    grpcapi::Record record;
    expectSame(real, NodeRefusals(io, kj::heap<grpcapi::ModelNode>("v1.0.0", record), "apid").all(),
               6);
  }
  grpcapi::Testbed bed;
  expectSame(real, NodeRefusals(io, kj::heap<grpcapi::FakeNode>(bed), "apid").all(), 1);
}

// Catches: an error of the API that the documents do not name; a call that was to be refused and
// was not.
TEST(NodeContract, TheErrorsAreThoseOfTheDocuments) {
  SchemaComments comments(TALOS_SOURCE_DIR);
  const std::map<std::string, capnp::InterfaceSchema> kInterfaces = {
      {"Services", capnp::Schema::from<rpc::Services>()},
      {"Logs", capnp::Schema::from<rpc::Logs>()},
      {"Events", capnp::Schema::from<rpc::Events>()},
      {"Resources", capnp::Schema::from<rpc::Resources>()}};
  auto ofList =
      errorsNamedIn(comments.of(capnp::Schema::from<rpc::Resources>().getMethodByName("list")));
  for (auto& [method, kind] : refusalsOfMachined()) {
    auto dot = method.find('.');
    auto schema = kInterfaces.at(method.substr(0, dot));
    auto named = errorsNamedIn(comments.of(schema.getMethodByName(method.substr(dot + 1).c_str())));
    if (method.starts_with("Resources.")) named.insert(ofList.begin(), ofList.end());
    bool is = false;
    for (auto one : named) is = is || kind == nameOf(one).cStr();
    EXPECT_TRUE(is) << method << ": " << kind;
  }
}

}  // namespace
}  // namespace talos
