// The brain's side of the program that writes to the system disk (machined/disk/installer).
//
// The brain is root and holds every secret; so the code that changes partition tables and makes
// file systems runs beside it: a short-lived child with the rights to use disks and to mount, and
// no others, which gets one request, reports its progress and ends. A system call filter keeps it
// from the network and from other processes, and what it reads it reads in steps that Landlock
// keeps to the one disk (machined/disk/installer/confinement.h). What another system has left on a
// disk is looked at by another process, which can read it and do nothing else: before an
// installation and before a disk is divided, this class asks for that. It dies with the brain: the
// next one does again what was cut off (machined/disk/installer/system-installation.h describes the
// disk at that point).
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/node-layout.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "rpc/install.capnp.h"

namespace talos::machined {

constexpr int kInstallerRequestFd = 3, kInstallerArchiveFd = 4;

class Installer {
 public:
  virtual ~Installer() noexcept(false) = default;
  // Resolves to whether anything had to be done. Rejects with FailedPrecondition and what the
  // program says, or with how it ended.
  using Fill = kj::Function<void(rpc::InstallRequest::Builder)>;
  virtual kj::Promise<bool> run(Fill fill) = 0;
  // The same for a request whose answer says what BOOT has after it. `archive`: a descriptor, -1 if
  // the request is not about one.
  using Hear = kj::Function<void(rpc::Slots::Reader)>;
  virtual kj::Promise<void> slots(Fill fill, Hear hear, int archive) = 0;
  kj::Promise<void> slots(Fill fill, Hear hear) { return slots(kj::mv(fill), kj::mv(hear), -1); }

  // An XFS on a partition of which the first `empty` bytes are zero.
  kj::Promise<void> format(kj::String device, kj::String label, uint64_t empty);
  // The first bytes of a partition become zeros.
  kj::Promise<void> clear(kj::String device, uint64_t bytes);
};

class RealInstaller final : public Installer, private kj::TaskSet::ErrorHandler {
 public:
  // Returns what is on a disk.
  using Look = kj::Function<kj::Promise<FoundOnDisk>(kj::StringPtr disk)>;
  RealInstaller(kj::AsyncIoContext& io, kj::Function<void(kj::StringPtr line)> say, Look look,
                kj::StringPtr confine = kConfine, kj::StringPtr program = kInstaller)
      : io(io),
        say(kj::mv(say)),
        look(kj::mv(look)),
        confine(confine),
        program(program),
        reaping(*this) {}

  kj::Promise<bool> run(Fill fill) override;
  kj::Promise<void> slots(Fill fill, Hear hear, int archive) override;
  using Installer::slots;

 private:
  kj::AsyncIoContext& io;
  kj::Function<void(kj::StringPtr line)> say;
  Look look;
  kj::StringPtr confine, program;
  kj::TaskSet reaping;

  using Answered = kj::Function<void(rpc::InstallAnswer::Reader)>;
  kj::Promise<void> fillFound(rpc::InstallRequest::Builder request);
  kj::Promise<void> ask(Fill fill, Answered answered, int archive = -1);
  kj::Promise<void> converse(kj::AsyncIoStream& stream, kj::Array<capnp::word> request,
                             Answered& answered);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
