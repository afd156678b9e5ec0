// How much memory of a server its clients may have, all connections of each together: messages that
// are being received, calls that are not answered yet, and answers that wait to be sent.
//
// A limit for each connection alone says little, as one client may have hundreds. A client has an
// account, by who it is. What it sends is held against the account before it is kept; more than it
// may have is refused (ResourceExhausted), which ends that connection. What waits to be sent to it
// is counted whenever anything has come in, from any side, since everything that is sent came in
// somewhere; a client that lets more than its share pile up loses the connection with most of it,
// and when that of all clients together is more than the total, so does the one with most.
// An account is there as long as somebody refers to it. Not thread-safe; nothing survives a
// restart.
#pragma once

#include <kj/list.h>
#include <kj/map.h>
#include <kj/refcount.h>
#include <kj/string.h>

namespace talos {

class Budget {
 public:
  struct Limits {
    size_t perClient, inTotal;
  };
  explicit Budget(Limits limits) : limits(limits) {}
  KJ_DISALLOW_COPY_AND_MOVE(Budget);

  // A connection, as far as what waits to be sent on it is concerned.
  class Queue {
   public:
    virtual size_t queued() const = 0;
    virtual void cutOff() = 0;  // ends it; not before the loop's next turn
    kj::ListLink<Queue> link;
  };

  class Account : public kj::Refcounted {
   public:
    Account(Budget& budget, kj::String client, size_t most)
        : budget(budget), client(kj::mv(client)), most(most) {}
    ~Account() noexcept(false);

    // Bytes that count until the object goes. ResourceExhausted.
    class Hold {
     public:
      Hold(Account& account, size_t bytes);
      Hold(Hold&&) = default;
      Hold& operator=(Hold&&) = delete;
      ~Hold() noexcept(false);

     private:
      kj::Own<Account> account;  // null: moved from
      size_t bytes;
    };
    Hold hold(size_t bytes) { return Hold(*this, kj::max(bytes, kLeast)); }
    kj::StringPtr name() const { return client; }

    // Something came in on one of its connections.
    void received(size_t bytes) { budget.received(bytes); }
    void add(Queue& queue) { queues.add(queue); }
    void remove(Queue& queue) { queues.remove(queue); }

   private:
    friend class Budget;
    Budget& budget;
    kj::String client;
    const size_t most;
    kj::List<Queue, &Queue::link> queues;
    size_t held = 0;
  };

  // That of the client of this name, whoever refers to it already, with what a client may have.
  kj::Own<Account> account(kj::StringPtr client) { return account(client, limits.perClient); }
  kj::Own<Account> account(kj::StringPtr client, size_t most);

 private:
  // What a call costs besides its bytes, with what forwards and answers it: contexts, membranes,
  // entries of tables.
  static constexpr size_t kLeast = 16u << 10;
  // How much may come in between two looks at what waits to be sent.
  static constexpr size_t kLookEvery = 1u << 20;

  Limits limits;
  kj::HashMap<kj::StringPtr, Account*> accounts;  // each removes itself
  size_t held = 0, sinceLook = 0;

  void received(size_t bytes);
  static size_t queuedFor(const Account& account);
  static void cutLongest(Account& account);
};

}  // namespace talos
