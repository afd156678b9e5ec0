// The running instance of a service: a child of process 1 (service-process.h) or a container of
// containerd (service-container.h). This program owns neither: both continue when it ends, and the
// next brain finds them. One object exists for the whole life of a service, and only the service
// uses it.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos::machined {

using Environment = kj::Array<kj::String>;  // K=V

class ServiceBody {
 public:
  virtual ~ServiceBody() noexcept(false) = default;

  // Returns the noun for messages about the instance's run and exit: "process", "task etcd".
  virtual kj::StringPtr noun() const = 0;
  virtual kj::String startedMessage(int pid) const = 0;

  // Prepares each start: work that may take long. Dropped if the service is stopped meanwhile.
  // `note` gets messages for users.
  virtual kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note) = 0;

  struct Started {
    int pid;
    bool adopted;  // it ran already: a predecessor crashed before it could report the start
  };
  // Starts the instance. Never dropped while the brain lives: a new process must be recorded.
  // `output` is for stdout and stderr, and stays open until the start is done. A failed start of a
  // container is retried, because containerd may have been killed meanwhile; a failed start of a
  // process is not.
  virtual kj::Promise<Started> start(Environment environment, int output) = 0;

  // Returns the PID of the instance that a predecessor left running; nullptr if nothing runs.
  virtual kj::Promise<kj::Maybe<int>> find() = 0;

  // Resolves when the instance that was started or found has ended, with its status as of wait(2);
  // nullptr if it is gone and its status is not known.
  virtual kj::Promise<kj::Maybe<int>> ended() = 0;

  // Resolves when the signal is certain to arrive, or when the instance no longer exists. Never
  // reaches the next instance.
  virtual kj::Promise<void> signal(int number) = 0;

  // Removes all remains after the end. The next start works without this, too.
  virtual kj::Promise<void> remove() = 0;
};

}  // namespace talos::machined
