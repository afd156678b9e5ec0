// For tests: a model of machined's store in this process, behind a Unix socket, with faults that a
// test sets. Every client may read and write everything.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/wire/resource-registry.h"
#include "common/wire/rpc-server.h"
#include "common/wire/store-client.h"
#include "rpc/local.capnp.h"

namespace talos {

// The resources of one type in one namespace, and the faults of their calls.
struct ModelKind {
  kj::TreeMap<kj::String, HeldResource> resources;
  kj::Vector<rpc::ResourceSink::Client> sinks;
  unsigned puts = 0, destroys = 0, watches = 0, watching = 0;
  unsigned conflicts = 0;          // so many puts fail, as if another client wrote just before
  std::set<std::string> tooLarge;  // ids whose puts fail with ResourceExhausted
  kj::Maybe<kj::ForkedPromise<void>> late;  // no snapshot before

  // `fill` gets the spec's builder.
  template <typename Spec, typename F>
  HeldResource& set(kj::StringPtr id, kj::StringPtr owner, uint64_t version, F&& fill) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setType(typeName<Spec>());
    metadata.setId(id);
    metadata.setOwner(owner);
    metadata.setVersion(version);
    fill(resource.initSpec().initAs<Spec>());
    return put(resource.asReader());
  }
  HeldResource& put(rpc::Resource::Reader resource) {
    resources.erase(kj::StringPtr(resource.getMetadata().getId()));
    return resources.insert(kj::str(resource.getMetadata().getId()), HeldResource(resource)).value;
  }
  // With another version, or another phase.
  template <typename F>
  HeldResource& change(rpc::Resource::Reader resource, F&& edit) {
    capnp::MallocMessageBuilder message;
    message.setRoot(resource);
    auto copy = message.getRoot<rpc::Resource>();
    edit(copy.getMetadata());
    return put(copy.asReader());
  }
  uint64_t versionOf(kj::StringPtr id) {
    KJ_IF_MAYBE (held, resources.find(id)) return held->get().getMetadata().getVersion();
    return 0;
  }
  void fill(capnp::List<rpc::Resource>::Builder list) {
    unsigned i = 0;
    for (auto& entry : resources) list.setWithCaveats(i++, entry.value.get());
  }
  void publish(rpc::Change::Event event, rpc::Resource::Reader resource) {
    for (auto& sink : sinks) {
      auto request = sink.changesRequest();
      auto change = request.initChanges(1)[0];
      change.setEvent(event);
      change.setResource(resource);
      request.send().detach([](kj::Exception&&) {});  // the watcher may have gone
    }
  }
};

class ModelMachined {
 public:
  explicit ModelMachined(kj::AsyncIoContext& io) : io(io) {}
  ~ModelMachined() noexcept(false) {
    serving = nullptr;
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(ModelMachined);

  template <typename Spec>
  ModelKind& kind(kj::StringPtr nameSpace = "") {
    return kind(nameSpace, typeName<Spec>());
  }
  ModelKind& kind(kj::StringPtr nameSpace, kj::StringPtr type) {
    auto& known = registry.find(type);
    auto space = nameSpace.size() > 0 ? nameSpace : kj::StringPtr(known.defaultNamespace);
    return kinds[{space.cStr(), known.name.cStr()}];
  }

  kj::StringPtr socket() const { return path; }
  void start() {
    serving = serveUnix(*io.lowLevelProvider, io.provider->getTimer(), listenUnix(path, 0600),
                        [this](const UnixPeer&) -> capnp::Capability::Client {
                          return kj::heap<Machined>(*this);
                        })
                  .eagerlyEvaluate(nullptr);
  }
  void stop() {
    serving = nullptr;
    for (auto& entry : kinds) entry.second.sinks.clear();
  }

 private:
  class Store final : public rpc::Store::Server {
   public:
    explicit Store(ModelMachined& machined) : machined(machined) {}

   protected:
    kj::Promise<void> list(ListContext context) override {
      auto& kind = of(context.getParams().getKind());
      kind.fill(context.getResults().initResources(kind.resources.size()));
      return kj::READY_NOW;
    }
    kj::Promise<void> watch(WatchContext context) override {
      auto params = context.getParams();
      auto& kind = of(params.getKind());
      ++kind.watches;
      ++kind.watching;
      KJ_DEFER(--kind.watching);
      KJ_IF_MAYBE (wait, kind.late) co_await wait->addBranch();
      auto sink = params.getSink();
      auto request = sink.snapshotRequest();
      kind.fill(request.initResources(kind.resources.size()));
      kind.sinks.add(sink);
      co_await request.send();
      co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    kj::Promise<void> put(PutContext context) override {
      auto resource = context.getParams().getResource();
      auto metadata = resource.getMetadata();
      auto& kind = machined.kind(metadata.getNamespace(), metadata.getType());
      kj::StringPtr id = metadata.getId();
      KJ_IF_MAYBE (stored, kind.resources.find(id)) {
        if (kind.conflicts > 0) {
          --kind.conflicts;
          kind.change(stored->get(), [&](auto meta) { meta.setVersion(meta.getVersion() + 1); });
        }
      }
      if (metadata.getVersion() != kind.versionOf(id)) {
        fail(ErrorKind::kConflict, "another version is stored");
      }
      if (kind.tooLarge.count(id.cStr()) > 0) fail(ErrorKind::kResourceExhausted, "no room");
      ++kind.puts;
      auto next = kind.versionOf(id) + 1;
      auto& held = kind.change(resource, [&](auto meta) { meta.setVersion(next); });
      kind.publish(rpc::Change::Event::UPDATED, held.get());
      return kj::READY_NOW;
    }
    kj::Promise<void> destroy(DestroyContext context) override {
      auto params = context.getParams();
      auto& kind = of(params.getKind());
      ++kind.destroys;
      KJ_IF_MAYBE (held, kind.resources.find(params.getId())) {
        if (held->get().getMetadata().getFinalizers().size() > 0)
          fail(ErrorKind::kConflict, "finalizers");
        kind.publish(rpc::Change::Event::DESTROYED, held->get());
      }
      kind.resources.erase(kj::StringPtr(params.getId()));
      return kj::READY_NOW;
    }
    kj::Promise<void> teardown(TeardownContext context) override {
      auto params = context.getParams();
      auto& kind = of(params.getKind());
      auto held = kj::mv(KJ_ASSERT_NONNULL(kind.resources.find(params.getId())));
      kind.change(held.get(), [](auto meta) { meta.setPhase(rpc::Metadata::Phase::TEARING_DOWN); });
      return kj::READY_NOW;
    }

   private:
    ModelMachined& machined;
    ModelKind& of(rpc::Kind::Reader kind) {
      return machined.kind(kind.getNamespace(), kind.getType());
    }
  };

  class Machined final : public rpc::Machined::Server {
   public:
    explicit Machined(ModelMachined& machined) : machined(machined) {}

   protected:
    kj::Promise<void> store(StoreContext context) override {
      context.getResults().setStore(kj::heap<Store>(machined));
      return kj::READY_NOW;
    }

   private:
    ModelMachined& machined;
  };

  kj::AsyncIoContext& io;
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/machined.sock");
  Registry registry;
  std::map<std::pair<std::string, std::string>, ModelKind> kinds;
  kj::Maybe<kj::Promise<void>> serving;

  static kj::String makeDirectory() {
    char name[] = "/tmp/model-machined-XXXXXX";
    return kj::str(mkdtemp(name));
  }
};

}  // namespace talos
