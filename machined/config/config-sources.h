// The sources of the machine config of a node without a copy on its disk.
//
// They are tried in this order: the kernel parameter talos.config (http, https, file, the volume
// `metal-iso`, the guest information of VMware), a volume labelled `cidata` (NoCloud), the
// machine's platform; in container mode the environment variable USERDATA. Only the first source
// that exists is used; user data that is empty or begins with #cloud-config counts as absent. The
// result is at most 4 MiB of unchecked foreign text, unpacked if it was gzip. Keeps no state: after
// a crash the search starts again.
#pragma once

#include <kj/array.h>
#include <kj/async.h>
#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/time.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::machined {

struct FoundConfig {
  kj::Array<char> text;
  // Name of the source for logs and problems: a URL without its query, "volume metal-iso
  // (/dev/sr0): config.yaml".
  kj::String from;
};

// A search without a config, for the console: "http://169.254.169.254 (Amazon EC2) has no user
// data".
struct NoConfig {
  kj::String where;
};
using ConfigSearch = kj::OneOf<FoundConfig, NoConfig>;

class ConfigSources {
 public:
  virtual ~ConfigSources() noexcept(false) = default;

  // Searches once, for at most `limit` with the retries inside (reading a volume that was found may
  // take longer). Returns NoConfig if no source is named and none has a config, hence maintenance.
  // Throws InvalidArgument if a source is named wrongly (with what would be right), Unavailable
  // with the last cause if the source exists and gives nothing.
  virtual kj::Promise<ConfigSearch> find(kj::Duration limit = 70 * kj::SECONDS) = 0;
  // Returns the error of a talos.platform= that names no platform. A machine without a config then
  // accepts none; a machine with a config continues as on `metal`.
  virtual kj::Maybe<kj::String> platformProblem() = 0;
  // Returns true if the config of this machine may be in a source that every process on the machine
  // can read, and that the machine can clear: the guest information of VMware.
  virtual bool clearable() = 0;
  // Clears this source. Returns the names of the variables that had a config; empty if none had, or
  // if there is no such source.
  virtual kj::Promise<kj::Array<kj::String>> clear() = 0;
};

}  // namespace talos::machined
