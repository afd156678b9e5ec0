#include "common/wire/store-client.h"

#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/zeroize.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"

namespace talos {
namespace {

constexpr Backoff::Pace kStorePace = {50 * kj::MILLISECONDS, 2 * kj::SECONDS};
constexpr auto kReconnectTimeout = 30 * kj::SECONDS;  // while machined cannot be reached
constexpr unsigned kRounds = 5;                       // attempts after a conflict
constexpr uint64_t kMetadataWords = 64;               // an estimate; a message grows when it has to

void fillKind(rpc::Kind::Builder out, StoreKind kind) {
  out.setNamespace(kind.nameSpace);
  out.setType(kind.type);
}

using ById = kj::TreeMap<kj::String, HeldResource>;

void keep(ById& resources, rpc::Resource::Reader resource) {
  resources.upsert(kj::str(resource.getMetadata().getId()), HeldResource(resource),
                   [](HeldResource& old, HeldResource&& fresh) { old = kj::mv(fresh); });
}

bool equalSpecs(rpc::Resource::Reader stored, capnp::MallocMessageBuilder& desired) {
  auto left = stored.getSpec().getAs<capnp::AnyStruct>();
  auto right = desired.getRoot<capnp::AnyStruct>().asReader();
  return left.equals(right) == capnp::Equality::EQUAL;
}

}  // namespace

struct WatchedResources::Impl {
  Impl(rpc::Store::Client store, kj::Timer& timer, StoreKind kind, kj::StringPtr id,
       kj::Function<void()> changed)
      : store_(kj::mv(store)),
        timer(timer),
        nameSpace(kj::str(kind.nameSpace)),
        type(kj::str(kind.type)),
        id(kj::str(id)),
        changed(kj::mv(changed)),
        running(run().eagerlyEvaluate([this](kj::Exception&& e) {
          log::error("watch ended", {{"type", this->type}, {"error", messageOf(e)}});
        })) {}

  // Called by machined during one attempt of the watch.
  class Sink final : public rpc::ResourceSink::Server {
   public:
    explicit Sink(Impl& watched) : watched(watched) {}

   protected:
    kj::Promise<void> snapshot(SnapshotContext context) override {
      ById fresh;
      for (auto resource : context.getParams().getResources()) keep(fresh, resource);
      log::debug("resources read", {{"type", watched.type}, {"count", fresh.size()}});
      watched.apply(kj::mv(fresh));
      return kj::READY_NOW;
    }
    kj::Promise<void> changes(ChangesContext context) override {
      for (auto change : context.getParams().getChanges()) {
        watched.logChange(change);
        if (change.getEvent() == rpc::Change::Event::DESTROYED) {
          kj::StringPtr id = change.getResource().getMetadata().getId();
          watched.current.erase(id);
        } else {
          keep(watched.current, change.getResource());
        }
      }
      watched.notify();
      return kj::READY_NOW;
    }
    // A new snapshot follows; until then the old state stays readable.
    kj::Promise<void> lagged(LaggedContext context) override { return kj::READY_NOW; }

   private:
    Impl& watched;
  };

  rpc::Store::Client store_;
  kj::Timer& timer;
  kj::String nameSpace, type, id;
  kj::Function<void()> changed;
  ById current;
  bool hasSnapshot = false;
  Backoff backoff{kStorePace};
  kj::String lastError;
  kj::Promise<void> running;

  void logChange(rpc::Change::Reader change) const {
    if (!log::writes(log::Level::kDebug)) return;
    auto metadata = change.getResource().getMetadata();
    bool gone = change.getEvent() == rpc::Change::Event::DESTROYED;
    log::debug(gone ? "resource removed"_kj : "resource changed"_kj,
               {{"type", type}, {"id", metadata.getId()}, {"version", metadata.getVersion()}});
  }

  void apply(ById fresh) {
    current = kj::mv(fresh);
    hasSnapshot = true;
    backoff.reset();
    lastError = nullptr;
    notify();
  }

  void notify() {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([this]() { changed(); })) {
      log::error("cannot process a change of a resource",
                 {{"type", type}, {"error", messageOf(*e)}});
    }
  }

  kj::Promise<void> run() {
    for (;;) {
      Sink sink(*this);
      capnp::RevocableServer<rpc::ResourceSink> revocable(
          sink);  // nothing reaches it after this turn
      auto request = store_.watchRequest();
      fillKind(request.initKind(), {nameSpace, type});
      request.setId(id);
      request.setSink(revocable.getClient());
      auto error =
          co_await request.send().then([](auto&&) { return kj::str("machined ended the watch"); },
                                       [](kj::Exception&& e) { return messageOf(e); });
      if (error != lastError) {
        log::warn("watch interrupted; retrying", {{"type", type}, {"error", error}});
        lastError = kj::mv(error);
      }
      co_await timer.afterDelay(backoff.next());
    }
  }
};

WatchedResources::WatchedResources(kj::Own<Impl> impl) : impl(kj::mv(impl)) {}
WatchedResources::~WatchedResources() noexcept(false) {}

bool WatchedResources::synced() const {
  return impl->hasSnapshot;
}

const kj::TreeMap<kj::String, HeldResource>& WatchedResources::resources() const {
  return impl->current;
}

HeldResource::HeldResource(rpc::Resource::Reader resource)
    : message(kj::heap<capnp::MallocMessageBuilder>(resource.totalSize().wordCount + 1)) {
  message->setRoot(resource);
}

HeldResource::~HeldResource() noexcept(false) {
  if (message.get() != nullptr) zeroize(*message);
}

rpc::Resource::Reader HeldResource::get() const {
  return const_cast<capnp::MallocMessageBuilder&>(*message).getRoot<rpc::Resource>().asReader();
}

struct StoreClient::Impl {
  kj::Timer& timer;
  kj::String owner;
  rpc::Store::Client store;

  Impl(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr path,
       kj::String owner)
      : timer(timer),
        owner(kj::mv(owner)),
        store(reconnecting([&lowLevel, &timer, path = kj::str(path)]() {
                return connectUnix(lowLevel, timer, path).then([](kj::Own<Connection>&& c) {
                  auto machined = c->bootstrap().castAs<rpc::Machined>();
                  auto store = machined.storeRequest().send().getStore();
                  return Dialed{kj::mv(c), kj::mv(store)};
                });
              }).castAs<rpc::Store>()) {}

  // Logs a call before it is made: when it has been answered, its parameters may no longer exist.
  static void logWrite(kj::StringPtr message, StoreKind kind, kj::StringPtr id) {
    if (log::writes(log::Level::kDebug)) log::debug(message, {{"type", kind.type}, {"id", id}});
  }

  // Reads and writes once. Fails with Conflict if another client wrote in between.
  kj::Promise<void> replaceOnce(StoreKind kind, Wanted& desired) {
    auto list = store.listRequest();
    fillKind(list.initKind(), kind);
    auto stored = co_await list.send();
    kj::TreeMap<kj::String, rpc::Resource::Reader> byId;
    for (auto resource : stored.getResources()) {
      byId.insert(kj::str(resource.getMetadata().getId()), resource);
    }
    kj::Maybe<kj::Exception> tooLarge;
    for (auto& entry : desired) {
      uint64_t version = 0;
      KJ_IF_MAYBE (resource, byId.find(entry.key)) {
        auto metadata = resource->getMetadata();
        if (metadata.getPhase() == rpc::Metadata::Phase::TEARING_DOWN) {
          requireNoFinalizers(metadata);
          co_await remove(kind, entry.key);  // desired again: replaced by a new one
        } else if (equalSpecs(*resource, *entry.value)) {
          continue;
        } else {
          version = metadata.getVersion();
        }
      }
      co_await put(kind, entry.key, *entry.value, version).catch_([&](kj::Exception&& e) {
        if (kindOf(e) != ErrorKind::kResourceExhausted) kj::throwFatalException(kj::mv(e));
        tooLarge = kj::mv(e);
      });
    }
    for (auto& entry : byId) {
      auto metadata = entry.value.getMetadata();
      kj::StringPtr ownerOf = metadata.getOwner();
      if (ownerOf != owner || desired.find(entry.key) != nullptr) continue;
      if (metadata.getFinalizers().size() == 0) {
        co_await remove(kind, entry.key);
      } else if (metadata.getPhase() == rpc::Metadata::Phase::RUNNING) {
        auto teardown = store.teardownRequest();
        fillKind(teardown.initKind(), kind);
        teardown.setId(entry.key);
        teardown.setOwner(owner);
        co_await teardown.send();
      }
    }
    KJ_IF_MAYBE (e, tooLarge) kj::throwFatalException(kj::mv(*e));
  }

  static void requireNoFinalizers(rpc::Metadata::Reader metadata) {
    auto finalizers = metadata.getFinalizers();
    if (finalizers.size() == 0) return;
    fail(ErrorKind::kUnavailable, kj::str(metadata.getType(), " ", metadata.getId(),
                                          " is still held by ", kj::strArray(finalizers, ", ")));
  }

  kj::Promise<void> put(StoreKind kind, kj::StringPtr id, capnp::MallocMessageBuilder& spec,
                        uint64_t version) {
    return put(kind, id, spec.getRoot<capnp::AnyStruct>().asReader(), version);
  }
  kj::Promise<void> put(StoreKind kind, kj::StringPtr id, capnp::AnyStruct::Reader spec,
                        uint64_t version) {
    auto size = spec.totalSize();
    size.wordCount += kMetadataWords;
    auto request = store.putRequest(size);
    logWrite("writing a resource", kind, id);
    auto resource = request.initResource();
    auto metadata = resource.initMetadata();
    metadata.setNamespace(kind.nameSpace);
    metadata.setType(kind.type);
    metadata.setId(id);
    metadata.setOwner(owner);
    metadata.setVersion(version);
    resource.initSpec().setAs<capnp::AnyStruct>(spec);
    return request.send().ignoreResult();
  }

  kj::Promise<void> remove(StoreKind kind, kj::StringPtr id) {
    auto request = store.destroyRequest();
    logWrite("removing a resource", kind, id);
    fillKind(request.initKind(), kind);
    request.setId(id);
    request.setOwner(owner);
    return request.send().ignoreResult();
  }
};

StoreClient::StoreClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                         kj::StringPtr socketPath, kj::String owner)
    : impl(kj::heap<Impl>(lowLevel, timer, socketPath, kj::mv(owner))) {}
StoreClient::~StoreClient() noexcept(false) = default;

kj::Own<WatchedResources> StoreClient::watch(StoreKind kind, kj::Function<void()> changed,
                                             kj::StringPtr id) {
  return kj::heap<WatchedResources>(
      kj::heap<WatchedResources::Impl>(impl->store, impl->timer, kind, id, kj::mv(changed)));
}

kj::Promise<void> StoreClient::create(StoreKind kind, kj::StringPtr id,
                                      capnp::AnyStruct::Reader spec) {
  return impl->put(kind, id, spec, 0);
}

kj::Promise<void> StoreClient::destroy(StoreKind kind, kj::StringPtr id) {
  return impl->remove(kind, id);
}

kj::Promise<void> StoreClient::visit(StoreKind kind,
                                     kj::Function<void(rpc::Resource::Reader)> visitor) {
  auto request = impl->store.listRequest();
  fillKind(request.initKind(), kind);
  auto stored = co_await request.send();
  for (auto resource : stored.getResources()) visitor(resource);
}

kj::Promise<void> StoreClient::replaceAll(StoreKind storeKind, Wanted desired) {
  auto nameSpace = kj::str(storeKind.nameSpace), type = kj::str(storeKind.type);
  auto started = impl->timer.now();
  Backoff backoff(kStorePace);
  for (unsigned round = 1;;) {
    kj::Maybe<kj::Exception> failure;
    co_await impl->replaceOnce({nameSpace, type}, desired).catch_([&](kj::Exception&& e) {
      failure = kj::mv(e);
    });
    KJ_IF_MAYBE (e, failure) {
      auto kind = kindOf(*e);
      if (kind == ErrorKind::kConflict || kind == ErrorKind::kNotFound) {
        if (round++ == kRounds) kj::throwFatalException(kj::mv(*e));
        continue;
      }
      if (kind != ErrorKind::kUnavailable || impl->timer.now() - started > kReconnectTimeout) {
        kj::throwFatalException(kj::mv(*e));
      }
    } else {
      co_return;
    }
    co_await impl->timer.afterDelay(backoff.next());
  }
}

}  // namespace talos
