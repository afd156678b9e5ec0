// Limits the memory that clients may use in a server, over all connections of each: messages being
// received, calls that are not answered yet, and answers that wait to be sent.
//
// A limit per connection alone is not enough, as one client may have hundreds of connections. Each
// client has an account. Its messages are charged to the account before they are stored; a message
// that exceeds the limit is refused (ResourceExhausted), which closes its connection. Bytes that
// wait to be sent are counted whenever bytes have been received, from any side, since everything
// that is sent was received from somewhere. A client with more than its share waiting loses its
// connection with the longest queue; when all clients together exceed the total, so does the client
// with the most bytes waiting. A part of the total is reserved for privileged clients, so that all
// others together cannot lock out the administrator. An account exists as long as it is referenced.
// Not thread-safe; no state survives a restart.
#pragma once

#include <kj/list.h>
#include <kj/map.h>
#include <kj/refcount.h>
#include <kj/string.h>

#include "common/wire/turns.h"

namespace talos {

class Budget {
 public:
  struct Limits {
    size_t perClient, inTotal;
    size_t reserve = 0;  // part of the total that only Rank::kPrivileged may use
  };
  enum class Rank { kUsual, kPrivileged };
  explicit Budget(Limits limits) : limits(limits) {}
  KJ_DISALLOW_COPY_AND_MOVE(Budget);

  // Send queue of a connection.
  class Queue {
   public:
    virtual size_t queued() const = 0;
    virtual void cutOff() = 0;  // closes the connection, in a later turn of the loop
    kj::ListLink<Queue> link;
  };

  class Account : public kj::Refcounted {
   public:
    Account(Budget& budget, kj::String client, size_t most, Rank rank)
        : budget(budget), client(kj::mv(client)), most(most), rank(rank) {}
    ~Account() noexcept(false);

    // Bytes that are charged until the object is destroyed. Throws ResourceExhausted.
    class Hold {
     public:
      Hold(Account& account, size_t bytes);
      Hold(Hold&&) = default;
      Hold& operator=(Hold&&) = delete;
      ~Hold() noexcept(false);

     private:
      kj::Own<Account> account;  // null after a move
      size_t bytes;
    };
    Hold hold(size_t bytes) { return Hold(*this, kj::max(bytes, kLeast)); }
    kj::StringPtr name() const { return client; }
    Turns turns;  // for all connections of the client

    // Notes that bytes were received on one of the client's connections.
    void received(size_t bytes) { budget.received(bytes); }
    void add(Queue& queue) { queues.add(queue); }
    void remove(Queue& queue) { queues.remove(queue); }

   private:
    friend class Budget;
    Budget& budget;
    kj::String client;
    const size_t most;
    const Rank rank;
    kj::List<Queue, &Queue::link> queues;
    size_t held = 0;
  };

  // Returns the account of the client with this name, new or existing, with the usual limit.
  kj::Own<Account> account(kj::StringPtr client) { return account(client, limits.perClient); }
  kj::Own<Account> account(kj::StringPtr client, size_t most, Rank rank = Rank::kUsual);

 private:
  // Cost of a call besides its bytes, in all layers that forward and answer it: contexts,
  // membranes, entries of tables.
  static constexpr size_t kLeast = 16u << 10;
  // Received bytes between two checks of the send queues.
  static constexpr size_t kCheckEvery = 1u << 20;

  Limits limits;
  kj::HashMap<kj::StringPtr, Account*> accounts;  // each account removes itself
  size_t held = 0, heldByUsual = 0, sinceCheck = 0;

  // Returns the part of the total for all clients of this rank.
  size_t sharedBy(Rank rank) const {
    return limits.inTotal - (rank == Rank::kUsual ? limits.reserve : 0);
  }
  void change(Account& account, ptrdiff_t bytes);
  void received(size_t bytes);
  static size_t queuedFor(Account& account);
  static void cutLongest(Account& account);
  // Cuts off the client with the most bytes waiting, if all clients of this rank (kPrivileged: all
  // clients) together have more than they may. Returns true if they had.
  bool cutGreatest(Rank rank);
};

}  // namespace talos
