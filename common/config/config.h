// The machine config: its bytes and the view that code reads.
//
// The bytes are stored, hashed, compared and patched; the view is rpc/config.capnp. Every mistake
// is a Problem with file, line, column, path and a hint; parsing never throws for bad text, and
// time and memory are bounded (common/yaml/yaml-codec.h). Unknown keys are errors, keys of later
// versions warnings (common/config/rules). Pure.
#pragma once

#include <capnp/message.h>
#include <kj/memory.h>

#include "common/base/problem.h"
#include "common/config/documents/documents.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-values.h"
#include "common/memory/zeroize.h"
#include "common/yaml/yaml-codec.h"
#include "rpc/config.capnp.h"

namespace talos::config {

// The judgement of a document with an unknown `kind` beside the machine config.
enum class UnknownDocuments { kRefused, kAllowed };

class MachineConfig {
 public:
  // Returns the view, which is complete only if there are no errors. It has nothing of a document
  // beside the main one that has an error. Its memory is zeroed on destruction.
  Config::Reader get() const { return view; }
  // Returns the view that was checked: it also has the documents in which only the checks have
  // found an error. For checks.
  Config::Reader checked() const { return checkedView; }
  kj::ArrayPtr<const char> bytes() const { return source; }
  const codec::Places& places() const { return where; }
  // Returns where values of the view are that documents beside the main one gave it.
  const Origins& origin() const { return origins; }
  const Problems& problems() const { return found; }
  bool good() const { return !hasErrors(found); }
  // Returns true if there was no document at all, which is not always a mistake.
  bool empty() const { return nothing; }

  MachineConfig(MachineConfig&&) = default;
  MachineConfig& operator=(MachineConfig&&) = default;
  ~MachineConfig() noexcept(false);

 private:
  MachineConfig() = default;
  kj::Array<char> source;
  kj::Own<capnp::MallocMessageBuilder> message;  // of the checked view
  kj::Own<SecretMessage> without;                // of the view, if a document is left out of it
  Config::Reader view, checkedView;
  codec::Places where;
  Origins origins;
  Problems found;
  bool nothing = false;

  friend MachineConfig parse(kj::ArrayPtr<const char> bytes, kj::StringPtr file,
                             UnknownDocuments unknown);
};

// Decodes the first document with the key `machine` and checks the rules for every machine. `file`
// is the file in the problems' places. A node refuses documents of an unknown kind, because it
// reads its stored config again at each boot; kAllowed makes them a warning.
MachineConfig parse(kj::ArrayPtr<const char> bytes, kj::StringPtr file = "",
                    UnknownDocuments unknown = UnknownDocuments::kRefused);

// Platform of the machine: only `metal` is installed on a disk.
enum class Mode { kMetal, kCloud, kContainer };
kj::Maybe<Mode> modeNamed(kj::StringPtr name);
void checkMode(const MachineConfig& config, Mode mode, kj::StringPtr file, Problems& problems);

}  // namespace talos::config
