// Parses the words of a command line into a call, with CLI11 (only commandline.cc includes it).
//
// Persistent flags may stand anywhere, in the forms `--flag value`, `--flag=value`, `-f value`,
// `-fvalue` and `--bool=false`. List flags read CSV and may be repeated; the last value of a scalar
// flag counts; "--" ends the flags. Names are never completed from a prefix: the error for an
// unknown word names the closest known word.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct Parsed {
  kj::Own<Invocation> call;  // call of the intended command, as far as the words name one
  bool help = false;         // --help was given
  kj::Maybe<kj::String> mistake;
};

// Parses `words`, which exclude the program's name.
Parsed parseCommandLine(Dependencies& deps, const Command& root,
                        kj::ArrayPtr<const kj::StringPtr> words);

// Splits one record of CSV (RFC 4180 quotes): a,"b,c" -> a | b,c
kj::Vector<kj::String> splitCsv(kj::StringPtr text);

}  // namespace talos::talosctl
