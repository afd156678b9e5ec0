// The records of one kind (namespace, type) and the changes that readers have yet to see. No I/O.
//
// A reader has a cursor into the numbered changes. Those that every reader has passed are let go,
// and no more than a ring is kept for the slowest: it will find that its number is gone.
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

// An immutable value of a resource. Secret ones are overwritten before their memory is given back.
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
  size_t bytes = 0;                                  // of them
  Signal changed;

  struct Changed {
    rpc::Change::Event event;
    kj::Own<Stored> resource;
  };

  // A reader's place. Registered while it lives.
  class Cursor {
   public:
    explicit Cursor(Kind& kind);
    ~Cursor() noexcept(false);
    KJ_DISALLOW_COPY_AND_MOVE(Cursor);

    // How many changes were let go before they were read; reading goes on with the oldest that is
    // left.
    uint64_t lag() const { return kind.first > at ? kind.first - at : 0; }
    // The change at the cursor, if it is there; next() passes it.
    kj::Maybe<Changed&> peek() const;
    void next();
    // The next changes that concern `id`, or all if it is empty: as many as one message may have.
    // None when there are none.
    kj::Vector<Changed> nextBatch(kj::StringPtr id);
    // To the present: a snapshot has been taken.
    void skip();

   private:
    Kind& kind;
    uint64_t at;
    std::list<Cursor*>::iterator place;
    friend class Kind;
  };

  // Appends to the changes, if anybody reads them.
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
  uint64_t first = 0, end = 0;  // numbers of ring.front() and behind ring.back()
  size_t ringBytes = 0;

  void trim();
  void dropFront();
};

}  // namespace talos::machined
