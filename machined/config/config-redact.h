// Machine configs as they are shown: without their secrets. Pure.
//
// Secret is what the schema marks so (rpc/config.capnp, $secret); below keys that it does not have
// (slips that the reader corrects, later versions) and in comments, what is called like a secret;
// and the password in a URL. Everything else keeps its bytes, its line and, but behind a secret in
// the same line, its column. A secret of several lines keeps their number.
//
// A text that is no YAML cannot be judged and is not shown at all.
#pragma once

#include <kj/string.h>

namespace talos::config {

// Every secret is "***".
kj::String redact(kj::ArrayPtr<const char> source);

// Two versions of one document, for a diff: a secret that is in both but not the same is
// "*** (old)" and "*** (new)".
struct RedactedPair {
  kj::String from, to;
};
RedactedPair redact(kj::ArrayPtr<const char> from, kj::ArrayPtr<const char> to);

}  // namespace talos::config
