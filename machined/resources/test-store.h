// Fixtures of the tests of this folder: a store with its own clock, and resources in one line.
#pragma once

#include <gtest/gtest.h>
#include <kj/async.h>

#include "common/base/error.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/store.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kHostnames = "HostnameSpecs.net.talos.dev"_kj;
constexpr kj::StringPtr kServices = "Services.v1alpha1.talos.dev"_kj;

class TestClock final : public kj::Clock {
 public:
  kj::Date time = kj::UNIX_EPOCH + 1'700'000'000 * kj::SECONDS;
  kj::Date now() const override { return time; }
};

struct StoreTest : public testing::Test {
  ~StoreTest() noexcept override {}

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  Registry registry;
  TestClock clock;
  FakeMachine machine;
  FakeProcess1 process1{machine};  // of the first brain
  Store store{registry, clock};

  static uint64_t put(Store& store, kj::StringPtr id, kj::StringPtr hostname, uint64_t version = 0,
                      kj::StringPtr owner = "test") {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setType(kHostnames);
    metadata.setId(id);
    metadata.setVersion(version);
    metadata.setOwner(owner);
    resource.getSpec().initAs<rpc::HostnameSpecSpec>().setHostname(hostname);
    return store.put(resource.asReader());
  }
  uint64_t put(kj::StringPtr id, kj::StringPtr hostname, uint64_t version = 0,
               kj::StringPtr owner = "test") {
    return put(store, id, hostname, version, owner);
  }

  // Returns "a=x@1 b=y@3-": ID, hostname, version, '-' if torn down.
  static kj::String shown(const Store& store) {
    kj::Vector<kj::String> parts;
    for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
      auto m = spec.metadata();
      parts.add(kj::str(spec.id(), "=", spec.getHostname(), "@", spec.version(),
                        m.getPhase() == rpc::Metadata::Phase::TEARING_DOWN ? "-" : "",
                        m.getFinalizers().size() > 0 ? "!" : ""));
    }
    return kj::strArray(parts, " ");
  }
  kj::String shown() const { return shown(store); }

  // Returns the kind of the error with which the function ends.
  template <typename F>
  static kj::StringPtr kindOfFailure(F&& f) {
    auto e = kj::runCatchingExceptions([&] { f(); });
    KJ_IF_MAYBE (x, e) {
      return nameOf(kindOf(*x));
    }
    return "ok";
  }
};

// Records what it gets: "snapshot a@1 b@1", "created a@1", "lagged 12".
class RecordingSink final : public rpc::ResourceSink::Server {
 public:
  struct Received {
    kj::Vector<kj::String> lines;
    uint64_t missed = 0, snapshots = 0, changes = 0;
    bool stopped = false, keep = true;
    kj::Own<kj::PromiseFulfiller<void>> go;
  };
  explicit RecordingSink(Received& received) : received(received) {}

  kj::Promise<void> snapshot(SnapshotContext context) override {
    ++received.snapshots;
    auto line = kj::str("snapshot");
    for (auto r : context.getParams().getResources()) line = kj::str(line, " ", brief(r));
    return take(kj::mv(line));
  }
  kj::Promise<void> changes(ChangesContext context) override {
    for (auto change : context.getParams().getChanges()) {
      ++received.changes;
      constexpr kj::StringPtr kEvents[] = {"created"_kj, "updated"_kj, "destroyed"_kj};
      if (received.keep) {
        received.lines.add(kj::str(kEvents[static_cast<int>(change.getEvent())], " ",
                                   brief(change.getResource())));
      }
    }
    return gate();
  }
  kj::Promise<void> lagged(LaggedContext context) override {
    received.missed += context.getParams().getMissed();
    return take(kj::str("lagged ", context.getParams().getMissed()));
  }

 private:
  Received& received;

  static kj::String brief(rpc::Resource::Reader r) {
    return kj::str(r.getMetadata().getId(), "@", r.getMetadata().getVersion());
  }
  kj::Promise<void> take(kj::String line) {
    if (received.keep) received.lines.add(kj::mv(line));
    return gate();
  }
  kj::Promise<void> gate() {
    if (!received.stopped) return kj::READY_NOW;
    auto paf = kj::newPromiseAndFulfiller<void>();
    received.go = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
};

}  // namespace talos::machined
