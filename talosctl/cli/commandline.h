// Parses the words of a command line into a call, with CLI11 (only commandline.cc includes it).
//
// Persistent flags may stand anywhere; `--flag value`, `--flag=value`, `-f value`, `-fvalue`,
// `--bool=false`; list flags read CSV and may be repeated; of a scalar flag the last one counts;
// "--" ends flags. Names are never guessed from a prefix: an unknown word is a mistake that names
// the closest known one.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct Parsed {
  kj::Own<Invocation> call;  // of the intended command, as far as it is known
  bool help = false;         // --help was given
  kj::Maybe<kj::String> mistake;
};

// `words` without the program's name.
Parsed parseCommandLine(Dependencies& deps, const Command& root,
                        kj::ArrayPtr<const kj::StringPtr> words);

// One record of CSV (RFC 4180 quotes): a,"b,c" -> a | b,c
kj::Vector<kj::String> splitCsv(kj::StringPtr text);

}  // namespace talos::talosctl
