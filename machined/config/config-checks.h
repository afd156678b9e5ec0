// The check of machine configs by confined processes (foreign-bytes.h), and the comparison of two
// configs. Keeps nothing but a count, so a crash loses only the check that was under way.
#pragma once

#include <kj/timer.h>

#include <utility>

#include "machined/config/config-host.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/system/credential-programs.h"
#include "machined/system/user-files.h"

namespace talos::machined {

class ConfigChecks {
 public:
  // A document that counts among those being checked, until the destruction.
  class Admission {
   public:
    Admission() = default;
    explicit Admission(unsigned& count) : count(&count) { ++count; }
    Admission(Admission&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
    ~Admission() {
      if (count != nullptr) --*count;
    }
    KJ_DISALLOW_COPY(Admission);

   private:
    unsigned* count = nullptr;
  };

  ConfigChecks(config::Mode mode, ForeignBytes& foreign, kj::Timer& timer, ConfigHost& host)
      : mode(mode), foreign(foreign), timer(timer), host(host) {}
  KJ_DISALLOW_COPY_AND_MOVE(ConfigChecks);

  // Resolve to the config, or to its errors. Reject if no process could read the document. In a
  // config that the node may have kept, what earlier releases accepted is a warning.
  kj::Promise<CheckedConfig> checkNew(kj::Array<char> text, kj::String file) {
    return check(kj::mv(text), kj::mv(file), false);
  }
  kj::Promise<CheckedConfig> checkKept(kj::Array<char> text, kj::String file) {
    return check(kj::mv(text), kj::mv(file), true);
  }
  // Admits the document of a caller, until the result is destroyed: ResourceExhausted if too many
  // documents of visitors, and large ones, are being checked.
  Admission admit(size_t bytes, bool visitor);
  // Checks a document that was valid before: retries while no process can be started.
  kj::Promise<CheckedConfig> checkAgain(kj::ArrayPtr<const char> text);

  // Compares with the running config; empty on a machine without a config, and for a document of
  // the same meaning. Documents in the same notation are compared as text, so comments count; a
  // document in the other notation, JSON or YAML, is compared by its meaning. Both configs must be
  // valid until the process has the bytes.
  kj::Promise<kj::String> difference(kj::Maybe<const KnownConfig&> running,
                                     const KnownConfig& wanted);

 private:
  config::Mode mode;
  ForeignBytes& foreign;
  kj::Timer& timer;
  ConfigHost& host;
  unsigned checking = 0;  // documents in parsers: large ones and visitors'

  kj::Promise<CheckedConfig> check(kj::Array<char> text, kj::String file, bool kept);
};

// Files that a config names and that the image lacks: entries of machine.files that this system
// cannot carry out, and programs that the kubelet is to ask for credentials, without which it does
// not start.
struct MissingFromImage {
  kj::Vector<MissingImageFile> files;
  kj::Vector<MissingProgram> programs;
};
// Refuses what is missing. It is a warning if the running config has it too, so that other changes
// stay possible, and before an installation, whose image may have it.
void checkImage(const MissingFromImage& missing, CheckedConfig& checked,
                kj::Maybe<const KnownConfig&> running, bool installs);

}  // namespace talos::machined
