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

#include <kj/async.h>
#include <kj/list.h>
#include <kj/map.h>
#include <kj/refcount.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos {

// Limits the work that one client causes between two polls of the event loop, over all its
// connections. The loop polls, and so notices other clients, only when it has nothing left to do: a
// client that sends without a pause would otherwise occupy it alone.
//
// Work is counted in units: each message is one unit however small it is, and so are each
// kUnitBytes received. A reader waits for next() before it reads and reports what it read with
// spend(). Waiting readers continue in the order in which they came. Pure, but for the timer.
class Turns {
 public:
  static constexpr size_t kUnitBytes = 4u << 10;
  // Units of one turn: a few milliseconds of small calls, less than one of data.
  static constexpr size_t kUnits = 64;

  // Returns true if the client has something left of its turn.
  bool admits(kj::TimePoint now) {
    if (now != began) begin(now);  // the loop's time is constant until it has polled
    return spent < kUnits;
  }
  void spend(size_t units) { spent += units; }

  // Resolves when admits() is true. The object and the timer outlive the promise.
  kj::Promise<void> next(kj::Timer& timer) {
    if (admits(timer.now())) return kj::READY_NOW;
    return timer.afterDelay(0 * kj::SECONDS).then([this, &timer, waitedFor = turn]() {
      // The loop has polled, even if its time is the same.
      if (turn == waitedFor) begin(timer.now());
      return next(timer);
    });
  }

 private:
  kj::TimePoint began = kj::origin<kj::TimePoint>();
  uint64_t turn = 0;
  size_t spent = 0;

  void begin(kj::TimePoint now) {
    began = now;
    spent = 0;
    ++turn;
  }
};

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
