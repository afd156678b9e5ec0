// The copy of the machine config on the node's disk: /system/state/config.yaml, mode 0600.
//
// Written as temp + fsync + rename + fsync of the directory, so it is whole or missing. It is in
// the file system that is mounted at /system/state; without one that is memory, and a copy there is
// lost with the boot.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>

#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kStateConfig = "/system/state/config.yaml"_kj;

// An interface, so that tests can stop the keeper between any two steps.
class ConfigDisk {
 public:
  virtual ~ConfigDisk() noexcept(false) = default;
  virtual kj::StringPtr name() const = 0;  // for people
  virtual kj::Maybe<kj::String> read() = 0;
  // Nothing is written when it is there already, as at most boots: a disk that has become read-only
  // is no reason to fail then.
  virtual kj::Promise<void> write(kj::Array<char> text) = 0;
  virtual kj::Promise<void> remove() = 0;  // absent is fine
  // Why a copy would be gone at the next boot; none when it stays.
  virtual kj::Maybe<kj::String> whyNotDurable() = 0;
  // Why it cannot be told yet whether there is a copy; none when read() tells. The machine has an
  // owner then.
  virtual kj::Maybe<kj::String> lockedProblem() { return nullptr; }
};

// Who keeps what is mounted at the file's folder. A launcher starts a container again with the same
// folders, whatever file system they are on.
enum class Keeper { kDisk, kLauncher };

class StateDisk final : public ConfigDisk {
 public:
  using Why = kj::ConstFunction<kj::Maybe<kj::String>()>;
  StateDisk(
      UvLoop& uv, Keeper keeper, kj::StringPtr path = kStateConfig,
      Why locked = []() -> kj::Maybe<kj::String> { return nullptr; })
      : uv(uv), keeper(keeper), path(kj::str(path)), locked(kj::mv(locked)) {}
  kj::StringPtr name() const override { return path; }
  kj::Maybe<kj::String> read() override;
  kj::Promise<void> write(kj::Array<char> text) override;
  kj::Promise<void> remove() override;
  kj::Maybe<kj::String> whyNotDurable() override;
  kj::Maybe<kj::String> lockedProblem() override { return locked(); }

 private:
  UvLoop& uv;
  Keeper keeper;
  kj::String path;
  Why locked;
};

}  // namespace talos::machined
