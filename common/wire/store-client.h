// A daemon's client of machined's store: inputs as snapshot + changes, outputs with versions.
//
// Survives restarts of machined: it dials again after a lost connection and every watch starts over
// with a snapshot, so a controller needs no code for this case. Meanwhile the last known state
// stays readable. After a conflict on a write the resources are read and compared again; the write
// is never just repeated.
#pragma once

#include <capnp/any.h>
#include <capnp/message.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/map.h>

#include <utility>

#include "common/base/resource.h"

namespace talos {

// A copy of a resource, zeroed on destruction, as some are secret.
class HeldResource {
 public:
  explicit HeldResource(rpc::Resource::Reader resource);
  ~HeldResource() noexcept(false);
  HeldResource(HeldResource&& other) = default;
  HeldResource& operator=(HeldResource&& other) {
    std::swap(message, other.message);
    return *this;
  }
  rpc::Resource::Reader get() const;

 private:
  kj::Own<capnp::MallocMessageBuilder> message;
};

// Resources that a watch keeps up to date, of any type.
class WatchedResources final {
 public:
  struct Impl;
  explicit WatchedResources(kj::Own<Impl> impl);
  ~WatchedResources() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(WatchedResources);

  bool synced() const;
  const kj::TreeMap<kj::String, HeldResource>& resources() const;  // by id

 private:
  kj::Own<Impl> impl;
};

// Current resources of one type, in the order of their ids, kept up to date until this object is
// destroyed. References into it are valid until the loop runs again.
template <typename Spec>
class Watched {
 public:
  Watched() = default;  // empty: must be assigned before use
  explicit Watched(kj::Own<WatchedResources> held) : held(kj::mv(held)) {}

  bool synced() const { return held->synced(); }  // a snapshot has arrived
  kj::Maybe<ResourceOf<Spec>> find(kj::StringPtr id) const {
    return held->resources().find(id).map(
        [](const HeldResource& found) { return ResourceOf<Spec>(found.get()); });
  }

  class Iterator {
   public:
    using Place = decltype(kj::instance<const kj::TreeMap<kj::String, HeldResource>&>().begin());
    explicit Iterator(Place place) : place(place) {}
    ResourceOf<Spec> operator*() const { return ResourceOf<Spec>((*place).value.get()); }
    Iterator& operator++() {
      ++place;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return place != other.place; }

   private:
    Place place;
  };
  Iterator begin() const { return Iterator(held->resources().begin()); }
  Iterator end() const { return Iterator(held->resources().end()); }

 private:
  kj::Own<WatchedResources> held;
};

struct StoreKind {
  kj::StringPtr nameSpace, type;
};

// Client of the store. The template argument Spec of a call selects the type: a struct of
// rpc/*-resources.capnp. An empty `nameSpace` means the type's default namespace.
class StoreClient {
 public:
  // `owner` names the controller in metadata.owner.
  StoreClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr socketPath,
              kj::String owner);
  ~StoreClient() noexcept(false);

  // Watches the resources of a type; with an id, only this resource, if it exists. The client must
  // outlive the result. `changed` is called once per batch, after the batch was applied; it must
  // not drop the Watched that calls it.
  template <typename Spec>
  Watched<Spec> watch(kj::Function<void()> changed, kj::StringPtr id = "",
                      kj::StringPtr nameSpace = "") {
    return Watched<Spec>(watch(StoreKind{nameSpace, typeName<Spec>()}, kj::mv(changed), id));
  }

  // Map from id to spec, a message whose root is the Spec.
  using Wanted = kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>>;

  // Makes the stored set of this owner's resources equal `desired`: creates, updates only what
  // differs, destroys the rest. Resources with finalizers of others are marked as tearing down and
  // destroyed by a later call. Rejects with Unavailable if machined is not back within half a
  // minute, with Conflict if another client keeps changing the same resources, and with
  // ResourceExhausted if some resources are too large: these are left out, all others are written.
  template <typename Spec>
  kj::Promise<void> replaceAll(Wanted desired, kj::StringPtr nameSpace = "") {
    return replaceAll(StoreKind{nameSpace, typeName<Spec>()}, kj::mv(desired));
  }

  // Writes single resources, for sets that are too large to be replaced as a whole. Each is one
  // call. Fails with Unavailable if machined cannot be reached, with Conflict if the resource
  // already exists. Destroying a resource that does not exist, or has another owner, is refused
  // too.
  template <typename Spec>
  kj::Promise<void> create(kj::StringPtr id, typename Spec::Reader spec) {
    return create({"", typeName<Spec>()}, id, spec);
  }
  template <typename Spec>
  kj::Promise<void> destroy(kj::StringPtr id) {
    return destroy({"", typeName<Spec>()}, id);
  }
  // Calls `visitor` for each resource of the type, without keeping any.
  template <typename Spec>
  kj::Promise<void> visit(kj::Function<void(ResourceOf<Spec>)> visitor) {
    return visit({"", typeName<Spec>()}, [visitor = kj::mv(visitor)](auto resource) mutable {
      visitor(ResourceOf<Spec>(resource));
    });
  }

 private:
  struct Impl;
  kj::Own<Impl> impl;
  kj::Own<WatchedResources> watch(StoreKind kind, kj::Function<void()> changed, kj::StringPtr id);
  kj::Promise<void> replaceAll(StoreKind kind, Wanted desired);
  kj::Promise<void> create(StoreKind kind, kj::StringPtr id, capnp::AnyStruct::Reader spec);
  kj::Promise<void> destroy(StoreKind kind, kj::StringPtr id);
  kj::Promise<void> visit(StoreKind kind, kj::Function<void(rpc::Resource::Reader)> visitor);
};

}  // namespace talos
