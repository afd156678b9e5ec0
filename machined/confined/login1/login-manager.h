// org.freedesktop.login1 on the node's private bus, as far as the kubelet uses it
// (org.freedesktop.login1(5)): Manager.Inhibit, ListInhibitors, the properties InhibitDelayMaxUSec
// and PreparingForShutdown, and the signal PrepareForShutdown, at /org/freedesktop/login1.
//
// Owns the connection, which the loop drives, and the reading end of a pipe for each lock. The
// process with the writing end holds the lock, and releases it by closing its end or by exiting.
// The manager queries the bus for the holder's identity, twice for at most 2 s; nothing else is
// answered meanwhile. A lost connection rejects run(): the program exits, and its supervisor
// restarts it. A lock is kept (kept-locks.h) before its holder gets it, so the next start has it.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>

#include <memory>

#include "machined/confined/login1/locks/kept-locks.h"
#include "machined/confined/login1/locks/shutdown-delay.h"

namespace sdbus {
class IConnection;
class IObject;
class IProxy;
}  // namespace sdbus

namespace talos::login1 {

class LoginManager {
 public:
  // `bus`: the address, "unix:path=…". Requests the name; throws if the bus is not reachable or
  // refuses. All arguments outlive the manager. `clock`: the time of day.
  LoginManager(kj::UnixEventPort& port, kj::Timer& timer, const kj::Clock& clock,
               kj::StringPtr address, ShutdownDelay& delay, KeptLocks& kept);
  ~LoginManager() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(LoginManager);

  kj::Promise<void> run();  // until the connection is lost
  void prepareForShutdown(bool begins);

 private:
  kj::UnixEventPort& port;
  kj::Timer& timer;
  const kj::Clock& clock;
  ShutdownDelay& delay;
  KeptLocks& kept;
  kj::TreeMap<Inhibitors::Id, kj::AutoCloseFd> pipes;  // of the locks of `delay`
  std::unique_ptr<sdbus::IConnection> connection;
  std::unique_ptr<sdbus::IObject> object;
  std::unique_ptr<sdbus::IProxy> bus;  // a proxy for the bus itself
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&& e) override;
  };
  Errors errors;
  kj::TaskSet held{errors};
  bool preparing = false;

  kj::AutoCloseFd inhibit(Inhibitor lock);
  void restoreLocks();
  void take(Inhibitor lock, kj::AutoCloseFd pipe);
  void keepLocks();
  void release(Inhibitors::Id id);
  // Resolves when no process has the writing end any more.
  static kj::Promise<void> awaitEnd(kj::UnixEventPort& port, int pipe);
};

}  // namespace talos::login1
