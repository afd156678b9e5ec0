// The resource store: every record that more than one program needs to know.
//
// The store is in the brain's memory; a journal in a memfd that process 1 holds (name "store")
// makes it outlive the brain. A record is appended to the journal before the change is visible to
// any reader, and each record carries its length and a checksum. So after a crash at any line the
// store has the state after some whole change, and it is the newest change that any reader saw; no
// version ever decreases. When the journal is larger than four times the live records (and than 1
// MiB), a compacted one replaces it with one hold(). The live records are bounded, and so is the
// journal: a write that would exceed the limit is refused and changes nothing.
//
// A journal that cannot be read, or only in part, does not stop the brain (the next brain would
// find the same journal): the store starts with the readable records, or empty, and the caller gets
// a description of the loss.
//
// The type may be a full name or an alias; an empty namespace is the type's default. The namespaces
// and types themselves are resources in `meta`, which is read-only for all callers. A Store object
// is a view: limited() makes another view of the same records with fewer rights.
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

constexpr size_t kChangeRing = 1000;           // changes of a kind that are kept for slow readers
constexpr size_t kChangeRingBytes = 4u << 20;  // and their bytes
constexpr size_t kLargestResource = 4u << 20;  // bytes
// Limit of all records together. 10 000 routes with their addresses and states are about 12 MB;
// beyond the limit a write throws ResourceExhausted.
constexpr size_t kMostLiveBytes = 32u << 20;
constexpr size_t kCompactionThreshold = 1u << 20;  // bytes below which it is not compacted

class Store {
 public:
  Store(const Registry& registry, const kj::Clock& clock);
  ~Store() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Store);

  // Restores the predecessor's records, if any, and journals from now on. Called before the first
  // write. Resolves when process 1 holds the journal, with a description of the predecessor's lost
  // records, if any.
  kj::Promise<kj::Maybe<kj::String>> attachJournal(Process1& process1);

  // Returns a view of the same store with only this access.
  kj::Own<Store> limited(Access access);

  // All of these throw the kinds of common/base/error.h: NotFound, Conflict, InvalidArgument,
  // PermissionDenied. A returned reader is valid until the caller suspends (co_await).
  rpc::Resource::Reader get(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) const;
  kj::Maybe<rpc::Resource::Reader> tryGet(kj::StringPtr ns, kj::StringPtr type,
                                          kj::StringPtr id) const;
  kj::Vector<rpc::Resource::Reader> list(kj::StringPtr ns, kj::StringPtr type) const;  // by id

  // The same for a known type, in the type's default namespace.
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

  // Follows the rules of rpc/resources.capnp, Store.put. Only namespace, type, ID, version and
  // owner of the metadata count; phase and finalizers are changed only by the methods below. A
  // resource that is being torn down accepts no new spec (Conflict). A new resource starts at
  // version `first`, for callers that keep versions over reboots.
  uint64_t put(rpc::Resource::Reader resource, uint64_t first = 1);
  void destroy(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner);
  // Returns true if no finalizers are left.
  bool teardown(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner);
  void addFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                    kj::StringPtr finalizer);
  void removeFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                       kj::StringPtr finalizer);

  // Sends a snapshot, then changes, to a remote sink. Changes are kept only while a reader has not
  // read them, and at most one ring; a sink that is slower than the ring gets lagged() and a new
  // snapshot. Runs until dropped. An empty ID means the whole kind.
  kj::Promise<void> watch(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                          rpc::ResourceSink::Client sink);

  // For controllers in this process: called after each change of the kind (never synchronously
  // inside a write; changes of one turn of the loop are one call). Dropping the handle ends the
  // calls.
  kj::Own<void> onChange(kj::StringPtr ns, kj::StringPtr type, kj::Function<void()> changed);
  template <typename Spec>
  kj::Own<void> onChange(kj::Function<void()> changed) {
    return onChange("", typeName<Spec>(), kj::mv(changed));
  }

  // Returns the full names of all types.
  kj::Vector<kj::StringPtr> types() const;
  const ResourceType& typeOf(kj::StringPtr nameOrAlias) const;

 private:
  struct Impl;
  mutable kj::Own<Impl> impl;  // reading may create an (empty) kind
  Access access;
  Store(kj::Own<Impl> impl, Access access);
};

}  // namespace talos::machined
