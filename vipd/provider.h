// Assigns a shared address to this machine at the provider of its network, where ARP moves nothing:
// looks up the machine and the address before the node stands for election, and keeps the address
// assigned while the node holds it.
//
// It decides nothing about who holds the address, and it delays no decision: the kernel gets the
// address and loses it as without a provider. It keeps nothing: after a crash at any line the next
// holder, on any node, reads from the provider where the address is and moves it. A call that a
// former holder made right before it lost its lease may still be carried out after the new holder's
// calls; so a holder looks again once a minute.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "common/base/backoff.h"
#include "common/net/ip.h"

namespace talos::vipd {

// This machine, as the provider may know it.
struct Machine {
  kj::String instance;  // the id from the provider's metadata service; empty: unknown
  kj::Vector<Ip> addresses;
};

// One address at a provider. Calls have deadlines, and end when their promise is dropped. Errors
// contain no secret; ResourceExhausted: the provider limits the calls.
class Provider {
 public:
  virtual ~Provider() noexcept(false) = default;
  virtual kj::StringPtr name() const = 0;
  // Looks up this machine and the address.
  virtual kj::Promise<void> find(Machine self) = 0;
  // Assigns the address to this machine, after find(). Returns false if it was assigned already.
  virtual kj::Promise<bool> assign() = 0;
};

class Assignment {
 public:
  // `changed` is called when obstacle() or problem() would return something else; it must not
  // destroy this object.
  Assignment(const Ip& address, kj::Timer& timer, kj::Function<double()>& chance,
             kj::Own<Provider> provider, kj::Function<void()> changed);
  KJ_DISALLOW_COPY_AND_MOVE(Assignment);

  // Looks up the machine and the address until both are found.
  void look(Machine self);
  // Returns the reason why the node cannot hold the address yet.
  kj::Maybe<kj::String> obstacle() const;
  // Assigns the address, and keeps it assigned until leave(), which ends pending calls. A second
  // call does nothing.
  void hold();
  void leave();
  // Returns the reason why the address is not assigned, or not known to be; empty: none is known.
  kj::StringPtr problem() const { return trouble; }

 private:
  enum class Task { kNone, kFinding, kKeeping };

  Ip address;
  kj::Timer& timer;
  kj::Function<double()>& chance;
  kj::Own<Provider> provider;
  kj::Function<void()> changed;
  Machine self;
  bool found = false;
  bool stale = false;  // The last assignment has failed: what was found may have changed.
  Task task = Task::kNone;
  kj::String trouble;
  Backoff backoff;
  kj::Maybe<kj::Promise<void>> working;

  kj::Promise<void> find();
  kj::Promise<void> keep();
  kj::Promise<void> findOnce();
  kj::Promise<void> keepOnce();
  kj::Promise<kj::Duration> paused(kj::Promise<void> work, kj::StringPtr what);
  void setTrouble(kj::String text);
};

}  // namespace talos::vipd
