// Services: what runs, why it waits, how it is restarted (spec boot-and-services.md §7).
//
// The life of a service is a table of (state, event) -> (next state, action), in lifecycle.h, pure and
// tested exhaustively; this class does the actions. After a crash of the brain the successor adopts the
// children that process 1 still has: nothing is restarted, states and health are taken up again.
// Each service runs under its own uid in its own cgroup, behind the exec wrapper that its definition names.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "machined/telemetry/events.h"
#include "machined/telemetry/logs.h"
#include "machined/process1.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// Something a service waits for: named as it is shown ("service \"networkd\" to be \"up\"").
class Condition {
 public:
  virtual ~Condition() noexcept(false) = default;
  virtual kj::String description() const = 0;
  virtual bool met() const = 0;
};

struct HealthCheck {
  kj::Function<kj::Promise<void>()> check;          // rejects with the reason
  kj::Duration delay = 1 * kj::SECONDS, period = 5 * kj::SECONDS, timeout = 500 * kj::MILLISECONDS;
};

struct ServiceDefinition {
  kj::String id;
  kj::Array<kj::String> argv;                       // with the exec wrapper in front
  kj::Array<kj::String> environment;
  kj::Vector<kj::String> dependsOn;                 // service ids that must be up
  kj::Vector<kj::Own<Condition>> conditions;
  kj::Maybe<kj::Function<kj::Promise<void>()>> preWork;
  kj::Maybe<HealthCheck> health;
  // Descriptors that outlive the service (listening sockets held by process 1), with their numbers.
  struct Socket { kj::String heldName; int as; };
  kj::Vector<Socket> sockets;
  bool mayBeControlled = true;                      // start/stop/restart over the API
};

class Supervisor {
 public:
  Supervisor(Process1& process1, Logs& logs, Events& events, kj::Timer& timer, const kj::Clock& clock);
  ~Supervisor() noexcept(false);

  void load(ServiceDefinition definition);          // state Initialized; adopts a survivor of that id
  void start(kj::StringPtr id);
  kj::Promise<void> stop(kj::StringPtr id);         // SIGTERM, 10 s, SIGKILL; resolves when it is down
  kj::Promise<void> stopAll();                      // dependants first, <= 30 s in total; for good
  kj::Promise<void> whenUp(kj::StringPtr id);       // rejects when it failed for good
  bool isUp(kj::StringPtr id) const;

  void describe(kj::Function<void(kj::ArrayPtr<const kj::StringPtr> ids)> get) const;
  void fill(kj::StringPtr id, rpc::Service::Builder out) const;     // NotFound
  kj::Vector<kj::String> ids() const;               // sorted
  // The running service itself, as an in-process entry (machined): state Running, no process.
  void loadSelf(kj::StringPtr id);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
