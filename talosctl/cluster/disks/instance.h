// One run of a node, from power on to power off: a virtual machine or a container. It is made
// running, and nothing of it is left when it has ended or when the object goes.
#pragma once

#include <kj/async.h>
#include <kj/string.h>

namespace talos::cluster {

// How a run ended.
struct End {
  enum class Kind {
    kReboot,  // it wants to be started again
    kOff,     // it has switched itself off
    kFailed,  // it was killed, or broke down
  };
  Kind kind;
  kj::String how;  // "killed by signal 9"
};

class Instance {
 public:
  virtual ~Instance() noexcept(false) = default;
  virtual int pid() const = 0;  // of the process on this host that the run depends on
  // Once.
  virtual kj::Promise<End> onEnd() = 0;
  // Presses its power button: it ends when it has shut down. Resolves when it was told.
  virtual kj::Promise<void> shutDown() = 0;
  // Ends it where it is; what it has written stays.
  virtual void kill() = 0;
  // Nothing in it runs until it is resumed; time goes on.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

}  // namespace talos::cluster
