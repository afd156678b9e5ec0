// Where the machine is in its life and what keeps it from going on: for Machine.status(), and for
// the controller that makes a resource of it.
#pragma once

#include <kj/function.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

class MachineStatus {
 public:
  using Stage = rpc::Status::Stage;

  explicit MachineStatus(kj::Function<void()> changed) : changed(kj::mv(changed)) {}

  void set(Stage stage, kj::Vector<kj::String> problems = {});
  Stage stage() const { return current; }
  kj::ArrayPtr<const kj::String> problems() const { return why; }
  // What is wrong with the machine whatever it is doing.
  void setFailing(kj::Vector<kj::String> problems);
  kj::ArrayPtr<const kj::String> failing() const { return broken; }
  void fill(rpc::Status::Builder out) const;  // stage, and problems of both kinds

 private:
  kj::Function<void()> changed;
  Stage current = Stage::BOOTING;
  kj::Vector<kj::String> why, broken;
};

kj::StringPtr nameOf(rpc::Status::Stage stage);

}  // namespace talos::machined
