// One run of a node, from power on to power off: a virtual machine or a container. It runs from its
// construction on, and leaves nothing when it has ended or the object is destroyed.
#pragma once

#include <kj/async.h>
#include <kj/string.h>

namespace talos::cluster {

// The end of a run.
struct End {
  enum class Kind {
    kReboot,  // the node must be started again
    kOff,     // the node has switched itself off
    kFailed,  // the node was killed, or crashed
  };
  Kind kind;
  kj::String how;  // such as "killed by signal 9"
};

class Instance {
 public:
  virtual ~Instance() noexcept(false) = default;
  virtual int pid() const = 0;  // pid of the process on this host that runs the node
  // To be called once.
  virtual kj::Promise<End> onEnd() = 0;
  // Requests an orderly shutdown. Resolves when the request has arrived; the run ends later.
  virtual kj::Promise<void> shutDown() = 0;
  // Cuts its power; data that it has written is kept.
  virtual void kill() = 0;
  // Stops all its processes until it is resumed; its clock continues.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

}  // namespace talos::cluster
