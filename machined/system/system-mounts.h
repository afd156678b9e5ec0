// The mounts that the machine config needs: a thin layer over the kernel, so that the decisions can
// be tested without it. Each mount happens as a whole or not at all.
#pragma once

#include <kj/io.h>
#include <kj/string.h>

namespace talos::machined {

class Mounts {
 public:
  virtual ~Mounts() noexcept(false) = default;

  virtual bool isMountPoint(kj::StringPtr path) const = 0;  // false if the path does not exist
  virtual void tmpfs(kj::StringPtr target, kj::StringPtr options) = 0;  // nosuid, nodev
  virtual void overlay(kj::StringPtr lower, kj::StringPtr upper, kj::StringPtr work,
                       kj::StringPtr target) = 0;
  // Also shows the files of `top` in the folder `target`, which is read-only then. The mounts at
  // the paths in `below`, which are below it, stay.
  virtual void overlayReadOnly(kj::StringPtr top, kj::StringPtr target,
                               kj::ArrayPtr<const kj::String> below) = 0;
  // Shows one file in the place of another: read-only, nosuid, nodev.
  virtual void bindReadOnly(kj::StringPtr source, kj::StringPtr target) = 0;
  virtual void unmount(kj::StringPtr target) = 0;
  // Returns the same directory without mounts below it.
  virtual kj::AutoCloseFd withoutMounts(int directory) const = 0;
};

class KernelMounts final : public Mounts {
 public:
  bool isMountPoint(kj::StringPtr path) const override;
  void tmpfs(kj::StringPtr target, kj::StringPtr options) override;
  void overlay(kj::StringPtr lower, kj::StringPtr upper, kj::StringPtr work,
               kj::StringPtr target) override;
  void overlayReadOnly(kj::StringPtr top, kj::StringPtr target,
                       kj::ArrayPtr<const kj::String> below) override;
  void bindReadOnly(kj::StringPtr source, kj::StringPtr target) override;
  void unmount(kj::StringPtr target) override;
  kj::AutoCloseFd withoutMounts(int directory) const override;
};

}  // namespace talos::machined
