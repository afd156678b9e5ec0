// The sources of a machine config when there is none on the node's disk.
//
// In this order: the kernel parameter talos.config (http, https, file, the volume `metal-iso`, the
// guest information of VMware), a volume labelled `cidata` (NoCloud), the machine's platform; in
// container mode the environment variable USERDATA. Only the first one that exists is used; user
// data that is empty or begins with #cloud-config counts as absent. The result is at most 4 MiB of
// unchecked foreign text, unpacked if it was gzip. Nothing is kept: after a crash the search starts
// anew.
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
  // For logs and problems: a URL without its query, "volume metal-iso (/dev/sr0): config.yaml".
  kj::String from;
};

// For the console: "http://169.254.169.254 (Amazon EC2) has no user data".
struct NoConfig {
  kj::String where;
};
using ConfigSearch = kj::OneOf<FoundConfig, NoConfig>;

class ConfigSources {
 public:
  virtual ~ConfigSources() noexcept(false) = default;

  // One search of at most `limit`, with retries inside (a volume that is found is read beyond it).
  // NoConfig: no source is named and none has a config, hence maintenance. Throws InvalidArgument
  // when a source is named wrongly (saying what would be right), Unavailable with the last cause
  // when it exists and gives nothing.
  virtual kj::Promise<ConfigSearch> find(kj::Duration limit = 70 * kj::SECONDS) = 0;
  // The error of a talos.platform= that names no platform. A machine that has no config yet takes
  // none then; one that has goes on as on `metal`.
  virtual kj::Maybe<kj::String> platformProblem() = 0;
  // True if the config of this machine may be in a source that every process of it can read, and
  // that it can clear: the guest information of VMware.
  virtual bool clearable() = 0;
  // Clears it. The names of what had a config; none: nothing had, or there is no such source.
  virtual kj::Promise<kj::Array<kj::String>> clear() = 0;
};

}  // namespace talos::machined
