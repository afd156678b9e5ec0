// A daemon's view of machined's store: inputs as snapshot + changes, outputs with versions.
//
// Survives restarts of machined: a lost connection is dialled again and every watch starts over
// with a snapshot, so a controller needs no code for it. Meanwhile what was last known stays
// readable. A conflict on a write is answered by reading again and computing again, never by
// repeating the write.
#pragma once

#include <capnp/any.h>
#include <capnp/message.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/map.h>

#include <utility>

#include "rpc/resources.capnp.h"

namespace talos {

// A resource held by value; zeroed in the end, for some are secret.
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
  template <typename Spec>
  typename Spec::Reader spec() const {
    return get().getSpec().template getAs<Spec>();
  }

 private:
  kj::Own<capnp::MallocMessageBuilder> message;
};

// The current resources of one kind, kept up to date until it is dropped. `changed` is called once
// per batch, after it was applied; it must not drop the Watched that calls it.
class Watched {
 public:
  virtual ~Watched() noexcept(false) = default;
  virtual bool synced() const = 0;  // a snapshot has arrived
  virtual const kj::TreeMap<kj::String, HeldResource>& resources() const = 0;  // by id
};

class StoreClient {
 public:
  // `owner` names the controller in metadata.owner.
  StoreClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr socketPath,
              kj::String owner);
  ~StoreClient() noexcept(false);

  // The client must outlive it. With an id: that one resource alone, if there is one.
  kj::Own<Watched> watch(kj::StringPtr type, kj::Function<void()> changed, kj::StringPtr id = "");

  // id -> spec, a message whose root is the Spec: a struct of rpc/types.capnp.
  using Wanted = kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>>;

  // Makes the stored set of `type` owned by this owner exactly `wanted`: creates, updates only what
  // differs, destroys the rest. What others still hold by finalizers is marked as tearing down and
  // goes with a later call. Rejects with Unavailable when machined does not come back within half a
  // minute, and with Conflict when somebody else keeps changing the same resources.
  template <typename Spec>
  kj::Promise<void> replaceAll(kj::StringPtr type, Wanted wanted) {
    return replaceAllErased(type, kj::mv(wanted));
  }

  // For sets that are too large to be replaced as a whole. Each is one call: Unavailable when
  // machined is away, Conflict when the resource is there already. Destroying what is not there, or
  // is another's, is refused too.
  template <typename Spec>
  kj::Promise<void> create(kj::StringPtr type, kj::StringPtr id, typename Spec::Reader spec) {
    return createErased(type, id, spec);
  }
  kj::Promise<void> destroy(kj::StringPtr type, kj::StringPtr id);
  // What there is of it, one after the other, and forgotten again.
  kj::Promise<void> visit(kj::StringPtr type, kj::Function<void(rpc::Resource::Reader)> visitor);

 private:
  struct Impl;
  kj::Own<Impl> impl;
  kj::Promise<void> replaceAllErased(kj::StringPtr type, Wanted wanted);
  kj::Promise<void> createErased(kj::StringPtr type, kj::StringPtr id,
                                 capnp::AnyStruct::Reader spec);
};

}  // namespace talos
