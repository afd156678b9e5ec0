// Calls that a node refuses, with the kind of error of each. They are made to machined's own
// servers, and to the models of a node that tests use.
#pragma once

#include <kj/async-io.h>
#include <signal.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "rpc/node.capnp.h"

namespace talos::contracts {

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

}  // namespace talos::contracts
