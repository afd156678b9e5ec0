// The resource store: every record that more than one program needs to know.
//
// Lives in the brain's memory; a journal in a memfd that process 1 holds (name "store") makes it outlive
// the brain. A record is appended to the journal before the change is visible to anybody, and each record
// carries its length and a checksum, so after a crash at any line the store is as it was after some whole
// change that was the newest one anybody saw; no version ever goes backwards. When the journal is larger
// than four times the live records (and than 1 MiB), a compacted one replaces it with one hold().
// Semantics: spec resources.md §1.6-1.7.
#pragma once

#include <capnp/message.h>
#include <kj/async.h>
#include <kj/map.h>

#include "common/registry.h"
#include "common/store-client.h"
#include "machined/process1.h"
#include "rpc/resources.capnp.h"

namespace talos::machined {

class Store {
 public:
  Store(const Registry& registry, const kj::Clock& clock);
  ~Store() noexcept(false);
  // Reads the predecessor's journal, if there is one, and journals from here on.
  kj::Promise<void> attachJournal(Process1& process1);

  // All of these throw the kinds of common/error.h: NotFound, Conflict, InvalidArgument, PermissionDenied.
  rpc::Resource::Reader get(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) const;
  kj::Maybe<rpc::Resource::Reader> tryGet(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) const;
  kj::Vector<rpc::Resource::Reader> list(kj::StringPtr ns, kj::StringPtr type) const;   // by id
  uint64_t put(rpc::Resource::Reader resource);          // rules: rpc/resources.capnp, Store.put
  void destroy(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner);
  bool teardown(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner);
  void addFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr finalizer);
  void removeFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr finalizer);

  // Snapshot, then changes, to a remote sink; a ring of 1000 changes for each kind bounds memory, and a
  // sink that fell behind it gets lagged() and a new snapshot. Runs until dropped.
  kj::Promise<void> watch(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, rpc::ResourceSink::Client sink);

  // For controllers in this process: called after each change of the kind (never synchronously inside a
  // write). Dropping the handle ends it.
  kj::Own<void> onChange(kj::StringPtr ns, kj::StringPtr type, kj::Function<void()> changed);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
