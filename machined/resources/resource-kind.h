// The records of one kind (namespace, type) and the changes that readers have not read yet. No I/O.
//
// A reader has a cursor into the numbered changes. Changes that every reader has passed are
// dropped, and at most one ring is kept for the slowest reader, which may find that the change at
// its number is gone.
#pragma once

#include <capnp/message.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/refcount.h>

#include <deque>
#include <list>

#include "common/base/signal.h"
#include "common/wire/resource-registry.h"
#include "rpc/resources.capnp.h"

namespace talos::machined {

// An immutable value of a resource. Secret values are overwritten before their memory is freed.
class Stored final : public kj::Refcounted {
 public:
  Stored(rpc::Resource::Reader resource, bool secret);
  ~Stored() noexcept(false);

  rpc::Resource::Reader get() const { return reader; }
  size_t bytes() const { return size; }

 private:
  capnp::MallocMessageBuilder message;
  rpc::Resource::Reader reader;
  size_t size;
  bool secret;
};

class Kind {
 public:
  Kind(const ResourceType& type, kj::StringPtr ns) : type(type), ns(kj::str(ns)) {}
  KJ_DISALLOW_COPY_AND_MOVE(Kind);

  const ResourceType& type;
  const kj::String ns;
  kj::TreeMap<kj::String, kj::Own<Stored>> records;  // by id
  size_t bytes = 0;                                  // size of the records
  Signal changed;

  struct Changed {
    rpc::Change::Event event;
    kj::Own<Stored> resource;
  };

  // A reader's position. Registered while it exists.
  class Cursor {
   public:
    explicit Cursor(Kind& kind);
    ~Cursor() noexcept(false);
    KJ_DISALLOW_COPY_AND_MOVE(Cursor);

    // Returns how many changes were dropped before they were read; reading continues with the
    // oldest remaining one.
    uint64_t lag() const { return kind.first > at ? kind.first - at : 0; }
    // Returns the change at the cursor, if it exists; next() passes it.
    kj::Maybe<Changed&> peek() const;
    void next();
    // Returns the next changes that concern `id`, or all if it is empty: as many as one message may
    // have. Empty if there are no changes.
    kj::Vector<Changed> nextBatch(kj::StringPtr id);
    // Moves to the present: a snapshot has been taken.
    void skip();

   private:
    Kind& kind;
    uint64_t at;
    std::list<Cursor*>::iterator place;
    friend class Kind;
  };

  // Appends to the changes, if there is a reader.
  void record(rpc::Change::Event event, kj::Own<Stored> resource);
  size_t kept() const { return ring.size(); }

  struct Listener : public kj::Refcounted {
    explicit Listener(kj::Function<void()> call) : call(kj::mv(call)) {}
    kj::Function<void()> call;
    bool active = true;
  };
  kj::Vector<kj::Own<Listener>> listeners;
  bool notifying = false;

 private:
  std::list<Cursor*> cursors;
  std::deque<Changed> ring;
  uint64_t first = 0, end = 0;  // numbers of ring.front(), and after ring.back()
  size_t ringBytes = 0;

  void trim();
  void dropFront();
};

// The namespaces and types of the registry as resources of the namespace `meta`, as in Talos.

// Calls `define` for each, with namespace, type, id and spec set.
void describeTypes(const Registry& registry, kj::FunctionParam<void(rpc::Resource::Reader)> define);

}  // namespace talos::machined
