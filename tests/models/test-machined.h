// For tests: machined as the daemons of a node meet it, reached through a separate Unix socket. The
// store and its server are machined's: versions, owners, phases, finalizers, the order of a watch
// and the rights of the caller's uid are those of a node. Other parts of machined are missing, and
// a test may add faults to the calls.
#pragma once

#include <capnp/dynamic.h>
#include <kj/async-io.h>
#include <stdlib.h>

#include <map>
#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/wire/rpc-server.h"
#include "common/wire/store-client.h"
#include "machined/api/node-server.h"
#include "machined/resources/store-server.h"
#include "rpc/local.capnp.h"

namespace talos {

// The resources of one type in one namespace, and the faults of a daemon's calls for them. The test
// itself writes as root, and its writes fail as they do on a node.
struct ModelKind {
  ModelKind(machined::Store& store, kj::StringPtr ns, kj::StringPtr type)
      : store(store), ns(kj::str(ns)), type(kj::str(type)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ModelKind);

  machined::Store& store;
  const kj::String ns, type;
  unsigned puts = 0;  // puts that were stored
  unsigned destroys = 0, watches = 0, watching = 0;

  unsigned conflicts = 0;          // number of puts that find that another client wrote just before
  std::set<std::string> tooLarge;  // ids whose puts fail with ResourceExhausted
  using Hook = kj::Function<kj::Promise<void>()>;
  // A call waits for these hooks; a hook that rejects fails the call.
  kj::Maybe<Hook> beforeWatch, beforePut, afterPut, beforeDestroy;

  // Creates or replaces a resource; an equal spec changes nothing. `fill` gets the spec's builder,
  // `first` is the version of a new resource.
  template <typename Spec, typename F>
  void set(kj::StringPtr id, kj::StringPtr owner, F&& fill, uint64_t first = 1) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    name(resource, id, owner);
    fill(resource.initSpec().initAs<Spec>());
    store.put(resource.asReader(), first);
  }
  // Does the same with an existing spec.
  template <typename Spec>
  void copy(kj::StringPtr id, kj::StringPtr owner, typename Spec::Reader spec) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    name(resource, id, owner);
    resource.getSpec().setAs<Spec>(spec);
    store.put(resource.asReader());
  }
  void destroy(kj::StringPtr id) {
    auto owner = kj::str(store.get(ns, type, id).getMetadata().getOwner());
    store.destroy(ns, type, id, owner);
  }
  kj::Maybe<rpc::Resource::Reader> find(kj::StringPtr id) const {
    return store.tryGet(ns, type, id);
  }
  kj::Vector<rpc::Resource::Reader> all() const { return store.list(ns, type); }
  size_t size() const { return all().size(); }
  uint64_t versionOf(kj::StringPtr id) const {
    KJ_IF_MAYBE (found, find(id)) return found->getMetadata().getVersion();
    return 0;
  }

 private:
  void name(rpc::Resource::Builder resource, kj::StringPtr id, kj::StringPtr owner) const {
    auto metadata = resource.initMetadata();
    metadata.setNamespace(ns);
    metadata.setType(type);
    metadata.setId(id);
    metadata.setOwner(owner);
    metadata.setVersion(versionOf(id));
  }
};

// The store with its server.
class ModelStore {
 public:
  ModelStore() = default;
  KJ_DISALLOW_COPY_AND_MOVE(ModelStore);

  template <typename Spec>
  ModelKind& kind(kj::StringPtr nameSpace = "") {
    return kind(nameSpace, typeName<Spec>());
  }
  ModelKind& kind(kj::StringPtr nameSpace, kj::StringPtr type) {
    auto& known = store.typeOf(type);
    auto space = nameSpace.size() > 0 ? nameSpace : kj::StringPtr(known.defaultNamespace);
    auto key = std::make_pair(std::string(space.cStr()), std::string(known.name.cStr()));
    return kinds.try_emplace(kj::mv(key), store, space, known.name).first->second;
  }
  unsigned watches() const {
    unsigned all = 0;
    for (auto& entry : kinds) all += entry.second.watches;
    return all;
  }
  rpc::Store::Client serve(unsigned uid) {
    capnp::Capability::Client served = kj::heap<WatchedStore>(*this, uid);
    return served.castAs<rpc::Store>();
  }

 private:
  // Passes each call on to machined's server, between the faults.
  class WatchedStore final : public capnp::DynamicCapability::Server {
   public:
    using Context = capnp::CallContext<capnp::DynamicStruct, capnp::DynamicStruct>;
    using Request = capnp::Request<capnp::DynamicStruct, capnp::DynamicStruct>;

    WatchedStore(ModelStore& model, unsigned uid)
        : Server(capnp::Schema::from<rpc::Store>(), {.allowCancellation = true}),
          model(model),
          real(machined::serveStore(model.store, uid)) {}

    kj::Promise<void> call(capnp::InterfaceSchema::Method method, Context context) override {
      kj::StringPtr name = method.getProto().getName();
      auto params = context.getParams();
      auto request = real.newRequest(method);
      for (auto field : params.getSchema().getFields()) {
        if (params.has(field)) request.set(field, params.get(field));
      }
      if (name == "put") return put(params, kj::mv(request), context);
      if (name == "destroy") return destroy(params, kj::mv(request));
      if (name == "watch") return watch(params, kj::mv(request));
      return context.tailCall(kj::mv(request));
    }

   private:
    ModelStore& model;
    capnp::DynamicCapability::Client real;

    // Returns nullptr if there is no such kind, which the server will report.
    kj::Maybe<ModelKind&> find(kj::StringPtr ns, kj::StringPtr type) {
      kj::Maybe<ModelKind&> found;
      (void)kj::runCatchingExceptions([&] { found = model.kind(ns, type); });
      return found;
    }
    kj::Maybe<ModelKind&> of(capnp::DynamicStruct::Reader params) {
      auto kind = params.get("kind").as<rpc::Kind>();
      return find(kind.getNamespace(), kind.getType());
    }
    static kj::Promise<void> run(kj::Maybe<ModelKind::Hook>& hook) {
      KJ_IF_MAYBE (h, hook) return (*h)();
      return kj::READY_NOW;
    }

    kj::Promise<void> put(capnp::DynamicStruct::Reader params, Request request, Context context) {
      auto metadata = params.get("resource").as<rpc::Resource>().getMetadata();
      auto found = find(metadata.getNamespace(), metadata.getType());
      auto id = kj::str(metadata.getId());
      KJ_IF_MAYBE (kind, found) {
        if (kind->conflicts > 0 && kind->find(id) != nullptr) {
          --kind->conflicts;
          kind->store.addFinalizer(kind->ns, kind->type, id, "another client");
          kind->store.removeFinalizer(kind->ns, kind->type, id, "another client");
        }
        co_await run(kind->beforePut);
        if (kind->tooLarge.count(id.cStr()) > 0) fail(ErrorKind::kResourceExhausted, "no room");
      }
      auto answer = co_await request.send();
      KJ_IF_MAYBE (kind, found) {
        ++kind->puts;
        co_await run(kind->afterPut);
      }
      context.getResults().set("version", answer.get("version"));
    }
    kj::Promise<void> destroy(capnp::DynamicStruct::Reader params, Request request) {
      KJ_IF_MAYBE (kind, of(params)) {
        ++kind->destroys;
        co_await run(kind->beforeDestroy);
      }
      co_await request.send().ignoreResult();
    }
    kj::Promise<void> watch(capnp::DynamicStruct::Reader params, Request request) {
      auto found = of(params);
      KJ_IF_MAYBE (kind, found) {
        ++kind->watches;
        ++kind->watching;
      }
      KJ_DEFER({
        KJ_IF_MAYBE (kind, found) --kind->watching;
      });
      KJ_IF_MAYBE (kind, found) co_await run(kind->beforeWatch);
      co_await request.send().ignoreResult();
    }
  };

  Registry registry;
  machined::Store store{registry, kj::nullClock()};
  std::map<std::pair<std::string, std::string>, ModelKind> kinds;
};

// machined.sock in a separate folder, with a store and no other part of machined but what a test
// adds.
class MachinedSocket {
 public:
  // `uid`: uid as which every caller counts. `storeFor`: the store with a caller's rights.
  MachinedSocket(kj::AsyncIoContext& io, unsigned uid,
                 kj::Function<rpc::Store::Client(unsigned uid)> storeFor)
      : io(io), uid(uid), storeFor(kj::mv(storeFor)) {}
  ~MachinedSocket() noexcept(false) {
    serving = nullptr;
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(MachinedSocket);

  kj::StringPtr socket() const { return path; }
  void start() {
    serving = serveUnix(*io.lowLevelProvider, io.provider->getTimer(), listenUnix(path, 0600),
                        [this](const UnixPeer& peer) -> capnp::Capability::Client {
                          rpc::Node::Client none =
                              KJ_EXCEPTION(DISCONNECTED, "this model has the store alone");
                          return machined::serveMachined(
                              UnixPeer{peer.pid, uid, uid}, none, none, storeFor(uid), [](auto) {},
                              [](auto) {}, logFeed, nullptr, nullptr, supervisor);
                        })
                  .eagerlyEvaluate(nullptr);
  }
  // Stops like a crash: connections end, and the stored data exists again at the next start.
  void stop() { serving = nullptr; }
  // Sets the callers' uid for connections from now on.
  void change(unsigned newUid) { uid = newUid; }
  // Sets the node's etcd-supervisor.
  void have(rpc::EtcdSupervisor::Client its) { supervisor = kj::mv(its); }
  // Sets the feed of the node's logs.
  void haveLogs(rpc::LogFeed::Client its) { logFeed = kj::mv(its); }

 private:
  kj::AsyncIoContext& io;
  unsigned uid;
  kj::Function<rpc::Store::Client(unsigned)> storeFor;
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/machined.sock");
  rpc::EtcdSupervisor::Client supervisor =
      KJ_EXCEPTION(DISCONNECTED, "this model has no etcd-supervisor");
  rpc::LogFeed::Client logFeed = nullptr;
  kj::Maybe<kj::Promise<void>> serving;

  static kj::String makeDirectory() {
    char name[] = "/tmp/machined-socket-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    return kj::str(name);
  }
};

class ModelMachined : public ModelStore, public MachinedSocket {
 public:
  // `uid`: uid as which every caller counts.
  explicit ModelMachined(kj::AsyncIoContext& io, unsigned uid = 0)
      : MachinedSocket(io, uid, [this](unsigned caller) { return serve(caller); }) {}
};

}  // namespace talos
