// The resource store: every record that more than one program needs to know.
//
// Lives in the brain's memory; a journal in a memfd that process 1 holds (name "store") makes it
// outlive the brain. A record is appended to the journal before the change is visible to anybody,
// and each record carries its length and a checksum, so after a crash at any line the store is as
// it was after some whole change that was the newest one anybody saw; no version ever goes
// backwards. When the journal is larger than four times the live records (and than 1 MiB), a
// compacted one replaces it with one hold(). The live records are bounded, and so is the journal: a
// write that would exceed that is refused and changes nothing.
//
// A journal that cannot be read, or only in part, is no reason to die (the next brain would find
// the same): the store begins with what could be read, or empty, and the caller gets a description
// of the loss.
//
// The type may be a full name or an alias, an empty namespace is the type's own. The namespaces and
// types themselves are resources in `meta`, which nobody can write. A Store object is a view:
// limited() makes another one of the same records that may do less.
#pragma once

#include <capnp/message.h>
#include <kj/async.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "common/base/resource.h"
#include "common/wire/resource-registry.h"
#include "machined/process1/process1.h"
#include "machined/resources/resource-access.h"

namespace talos::machined {

constexpr size_t kChangeRing = 1000;           // changes kept of a kind for readers that are behind
constexpr size_t kChangeRingBytes = 4u << 20;  // and their bytes
constexpr size_t kLargestResource = 4u << 20;  // bytes
// Of all records together. 10 000 routes with their addresses and states are about 12 MB; beyond
// this a write is ResourceExhausted.
constexpr size_t kMostLiveBytes = 32u << 20;
constexpr size_t kCompactionThreshold = 1u << 20;  // bytes of journal below which it is left alone

class Store {
 public:
  Store(const Registry& registry, const kj::Clock& clock);
  ~Store() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Store);

  // Takes up the predecessor's records, if there are any, and journals from here on. Before the
  // first write. Resolves when process 1 holds the journal, with what was lost of the
  // predecessor's, if something was.
  kj::Promise<kj::Maybe<kj::String>> attachJournal(Process1& process1);

  // The same store, for somebody who may do only this.
  kj::Own<Store> limited(Access access);

  // All of these throw the kinds of common/base/error.h: NotFound, Conflict, InvalidArgument,
  // PermissionDenied. A reader that they return is valid until the caller gives up control
  // (co_await).
  rpc::Resource::Reader get(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) const;
  kj::Maybe<rpc::Resource::Reader> tryGet(kj::StringPtr ns, kj::StringPtr type,
                                          kj::StringPtr id) const;
  kj::Vector<rpc::Resource::Reader> list(kj::StringPtr ns, kj::StringPtr type) const;  // by id

  // The same where the type is known; the namespace is the type's own.
  template <typename Spec>
  kj::Maybe<ResourceOf<Spec>> tryGet(kj::StringPtr id) const {
    return tryGet("", typeName<Spec>(), id).map([](auto found) { return ResourceOf<Spec>(found); });
  }
  template <typename Spec>
  kj::Vector<ResourceOf<Spec>> list() const {
    kj::Vector<ResourceOf<Spec>> result;
    for (auto found : list("", typeName<Spec>())) result.add(found);
    return result;
  }

  // Rules: rpc/resources.capnp, Store.put. Of the metadata namespace, type, id, version and owner
  // count; phase and finalizers are changed by the methods below only. A resource that is being
  // torn down takes no new spec (Conflict).
  // One that is new begins at version `first`, for who keeps versions over reboots.
  uint64_t put(rpc::Resource::Reader resource, uint64_t first = 1);
  void destroy(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner);
  // True: no finalizers are left.
  bool teardown(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner);
  void addFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                    kj::StringPtr finalizer);
  void removeFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                       kj::StringPtr finalizer);

  // Snapshot, then changes, to a remote sink. Changes are kept only while somebody has yet to read
  // them, and no more than a ring; a sink that fell behind it gets lagged() and a new snapshot.
  // Runs until dropped. An empty id: the whole kind.
  kj::Promise<void> watch(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                          rpc::ResourceSink::Client sink);

  // For controllers in this process: called after each change of the kind (never synchronously
  // inside a write; changes of one turn of the loop are one call). Dropping the handle ends it.
  kj::Own<void> onChange(kj::StringPtr ns, kj::StringPtr type, kj::Function<void()> changed);
  template <typename Spec>
  kj::Own<void> onChange(kj::Function<void()> changed) {
    return onChange("", typeName<Spec>(), kj::mv(changed));
  }

  // Full names of all types.
  kj::Vector<kj::StringPtr> types() const;
  const ResourceType& typeOf(kj::StringPtr nameOrAlias) const;

 private:
  struct Impl;
  mutable kj::Own<Impl> impl;  // reading may make an (empty) kind
  Access access;
  Store(kj::Own<Impl> impl, Access access);
};

}  // namespace talos::machined
