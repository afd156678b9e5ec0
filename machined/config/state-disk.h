// The copy of the machine config on the node's disk: /system/state/config.yaml, mode 0600.
//
// Written as temp + fsync + rename + fsync of the directory, so it is whole or missing. The copy is
// in the file system that is mounted at /system/state; without a mount it is in memory, and is lost
// with the boot.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>

#include "machined/confined/parser-client/known-config.h"
#include "machined/disk/volumes/state-volume.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kStateConfig = "/system/state/config.yaml"_kj;

// An interface, so that tests can stop the config manager between any two steps.
class ConfigDisk {
 public:
  virtual ~ConfigDisk() noexcept(false) = default;
  virtual kj::StringPtr name() const = 0;  // name for messages
  virtual kj::Maybe<kj::String> read() = 0;
  // Writes nothing if the copy is the same already, as at most boots, so that a disk that has
  // become read-only does not fail the boot.
  virtual kj::Promise<void> write(kj::Array<char> text) = 0;
  virtual kj::Promise<void> remove() = 0;  // a missing copy is no error
  // Returns the reason why the next boot would not find the copy; nullptr if it would.
  virtual kj::Maybe<kj::String> whyNotDurable() = 0;
  // Returns the reason why the copy cannot be read yet, because its disk is locked: then the
  // machine has an owner. nullptr if read() works.
  virtual kj::Maybe<kj::String> lockedProblem() { return nullptr; }
  // Returns a promise that resolves when the locked disk is open, without a config; nullptr if only
  // a config opens it.
  virtual kj::Maybe<kj::Promise<void>> untilOpened() { return nullptr; }
};

// Writes or removes the copy: with persist: false the next boot must not use an older copy.
kj::Promise<void> keepOnDisk(ConfigDisk& disk, const KnownConfig& config);
// Returns true if the copy can be read and is this text.
bool isOnDisk(ConfigDisk& disk, kj::ArrayPtr<const char> text);
// Returns the copy if it is not this text. Returns nullptr also if it cannot be read, because a
// write reports the error.
kj::Maybe<kj::String> otherOnDisk(ConfigDisk& disk, kj::ArrayPtr<const char> text);

class StateDisk final : public ConfigDisk {
 public:
  using Why = kj::ConstFunction<kj::Maybe<kj::String>()>;
  using Opening = kj::ConstFunction<kj::Maybe<kj::Promise<void>>()>;
  StateDisk(
      UvLoop& uv, StateOn on, kj::StringPtr path = kStateConfig,
      Why locked = []() -> kj::Maybe<kj::String> { return nullptr; },
      Opening opening = []() -> kj::Maybe<kj::Promise<void>> { return nullptr; })
      : uv(uv), on(on), path(kj::str(path)), locked(kj::mv(locked)), opening(kj::mv(opening)) {}
  kj::StringPtr name() const override { return path; }
  kj::Maybe<kj::String> read() override;
  kj::Promise<void> write(kj::Array<char> text) override;
  kj::Promise<void> remove() override;
  kj::Maybe<kj::String> whyNotDurable() override;
  kj::Maybe<kj::String> lockedProblem() override { return locked(); }
  kj::Maybe<kj::Promise<void>> untilOpened() override { return opening(); }

 private:
  UvLoop& uv;
  StateOn on;
  kj::String path;
  Why locked;
  Opening opening;
};

}  // namespace talos::machined
