#include "apid/grpc/resource-watch.h"

#include <kj/refcount.h>

#include "common/base/error.h"
#include "common/grpc-messages/message-shape.h"

namespace talos::grpcapi {
namespace {

using Event = WatchListener::Event;

// The state that the client knows. The node may hold the sink for longer than the call lasts.
class KnownState final : public kj::Refcounted {
 public:
  explicit KnownState(WatchListener& listener) : listener(listener), ids(listener.charge({0, 0})) {}
  // Cancels pending calls of the listener before it returns.
  void end() {
    listener = nullptr;
    ids = AnswerCharge(nullptr);
    canceler.cancel("the client has gone");
  }

  kj::Promise<void> snapshot(capnp::List<rpc::Resource>::Reader resources) {
    bool first = !started;
    started = true;
    if (first) co_await canceler.wrap(to().begin());
    auto before = kj::mv(versions);
    versions.clear();
    for (auto resource : itemsOf(resources)) {
      auto id = resource.getMetadata().getId();
      auto version = resource.getMetadata().getVersion();
      addedBytes += id.size() + kIdCost;
      versions.upsert(kj::str(id), version, [](auto&, auto&&) {});
      KJ_IF_MAYBE (old, before.find(id)) {
        if (*old != version) co_await canceler.wrap(to().changed(Event::kUpdated, resource));
      } else {
        co_await canceler.wrap(to().changed(Event::kCreated, resource));
      }
    }
    for (auto& entry : before) {
      if (versions.find(entry.key) == nullptr) co_await canceler.wrap(to().gone(entry.key));
    }
    if (first) co_await canceler.wrap(to().bootstrapped());
  }

  AnswerCharge charge(capnp::MessageSize kept) { return to().charge(kept); }
  // Charges the ids: the node decides how many there are, and how long.
  void chargeIds() {
    if (addedBytes < kCheckEvery) return;
    addedBytes = 0;
    size_t bytes = 0;
    for (auto& entry : versions) bytes += entry.key.size() + kIdCost;
    ids.set(bytes);
  }

  kj::Promise<void> changes(capnp::List<rpc::Change>::Reader changes) {
    for (auto change : itemsOf(changes)) {
      auto resource = change.getResource();
      auto id = kj::str(resource.getMetadata().getId());
      addedBytes += id.size() + kIdCost;
      if (change.getEvent() == rpc::Change::Event::DESTROYED) {
        versions.erase(id);
      } else {
        versions.upsert(kj::mv(id), resource.getMetadata().getVersion(),
                        [](uint64_t& old, uint64_t&& now) { old = now; });
      }
      co_await canceler.wrap(to().changed(Event(change.getEvent()), resource));
    }
  }

 private:
  kj::Maybe<WatchListener&> listener;
  static constexpr size_t kIdCost = 64;  // besides its text
  static constexpr size_t kCheckEvery = 64u << 10;
  kj::Canceler canceler;
  bool started = false;
  kj::TreeMap<kj::String, uint64_t> versions;
  size_t addedBytes = 0;  // of ids added since the last charge
  AnswerCharge ids;

  WatchListener& to() {
    KJ_IF_MAYBE (l, listener) return *l;
    fail(ErrorKind::kUnavailable, "the client has gone");
  }
};
static_assert(int(Event::kCreated) == int(rpc::Change::Event::CREATED));
static_assert(int(Event::kUpdated) == int(rpc::Change::Event::UPDATED));
static_assert(int(Event::kDestroyed) == int(rpc::Change::Event::DESTROYED));

class Sink final : public rpc::ResourceSink::Server {
 public:
  explicit Sink(kj::Own<KnownState> known) : known(kj::mv(known)) {}

 protected:
  kj::Promise<void> snapshot(SnapshotContext context) override {
    auto params = context.getParams();
    auto charge = known->charge(params.totalSize());
    co_await known->snapshot(params.getResources());
    known->chargeIds();
  }
  kj::Promise<void> changes(ChangesContext context) override {
    auto params = context.getParams();
    auto charge = known->charge(params.totalSize());
    co_await known->changes(params.getChanges());
    known->chargeIds();
  }
  kj::Promise<void> lagged(LaggedContext) override { return kj::READY_NOW; }

 private:
  kj::Own<KnownState> known;
};

}  // namespace

kj::Promise<void> watch(rpc::Resources::Client resources, kj::StringPtr space, kj::StringPtr type,
                        kj::StringPtr id, WatchListener& listener) {
  auto known = kj::refcounted<KnownState>(listener);
  KJ_DEFER(known->end());
  auto request = resources.watchRequest();
  request.getKind().setNamespace(space);
  request.getKind().setType(type);
  request.setId(id);
  request.setSink(kj::heap<Sink>(kj::addRef(*known)));
  co_await request.send().ignoreResult();
}

}  // namespace talos::grpcapi
