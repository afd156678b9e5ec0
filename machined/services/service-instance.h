// The running instance of a service: a child of process 1 (service-process.h) or a container of
// containerd (service-container.h). Neither is this program's: both go on when it ends, and the
// next brain finds them. One object for the whole life of a service, only the service uses it.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos::machined {

using Environment = kj::Array<kj::String>;  // K=V

class ServiceBody {
 public:
  virtual ~ServiceBody() noexcept(false) = default;

  // Its name in messages about its run and its exit: "process", "task etcd".
  virtual kj::StringPtr noun() const = 0;
  virtual kj::String startedMessage(int pid) const = 0;

  // Before each start: work that may take long. Dropped when the service is stopped meanwhile.
  // `note` gets messages for users.
  virtual kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note) = 0;

  struct Started {
    int pid;
    bool adopted;  // it ran already: a predecessor did not live to say so
  };
  // Never dropped while the brain lives: whatever comes to be has to be taken notice of. `output`
  // is for stdout and stderr, and open until it is done. A container's that fails is tried again,
  // as a process's is not: containerd may have been killed in its middle.
  virtual kj::Promise<Started> start(Environment environment, int output) = 0;

  // The pid of what a predecessor left running; none when nothing runs.
  virtual kj::Promise<kj::Maybe<int>> find() = 0;

  // Of what was started, or found: when it has ended, its status as of wait(2); none when it is
  // gone and nobody knows how.
  virtual kj::Promise<kj::Maybe<int>> ended() = 0;

  // Resolves when it is certain to come, or there is nothing that it could reach any more. Never
  // reaches the next one.
  virtual kj::Promise<void> signal(int number) = 0;

  // After its end: nothing is left of it. The next start does without it, too.
  virtual kj::Promise<void> remove() = 0;
};

}  // namespace talos::machined
