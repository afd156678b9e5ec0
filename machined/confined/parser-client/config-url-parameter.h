// Parses the kernel parameters for the location of the machine config, talos.config and
// talos.config.ca, and URLs. Pure.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/kernel/kernel-arguments.h"

namespace talos::machined {

struct HttpSource {
  bool secure = false;
  kj::String host;  // a name or an address, without brackets
  uint16_t port = 80;
  kj::String authority;  // for the Host header
  kj::String target;     // path and query, as they are sent
  kj::String shown;      // for logs: without the query, which may hold secrets

  enum class Method { kGet, kPut, kPost };
  struct Header {
    kj::String name, value;
  };
  Method method = Method::kGet;
  kj::Vector<Header> headers;
  kj::String body;
  // True for a metadata service: its answer may be short, empty or binary, and a redirect is an
  // error, since the headers hold a token.
  bool metadata = false;
  bool lowPort = false;  // the server answers only clients whose port is below 1024
};
struct FileSource {
  kj::String path;
  kj::String shown;
};
struct VolumeSource {
  kj::String label;
};
struct GuestInfoSource {};  // of VMware
using Source = kj::OneOf<HttpSource, FileSource, VolumeSource, GuestInfoSource>;

// Values for ${uuid}, ${serial}, ${mac} and ${hostname} in the values of a query. Empty if not
// known.
struct UrlVariables {
  kj::String uuid, serial, mac, hostname;
};
// Returns nullptr if the parameter is absent, empty or `none`. Throws InvalidArgument with the
// valid values, or Unavailable naming a variable without a known value. An empty value of the query
// key `uuid` means ${uuid}. Variables may be written in capitals; their values are percent-encoded.
kj::Maybe<Source> configSource(const KernelArguments& arguments, const UrlVariables& variables);

// Parses an http or https URL, and drops its fragment. Throws InvalidArgument.
HttpSource httpUrl(kj::StringPtr text);

// Returns the target of a redirect from `from`: `location` is absolute or relative, as in the
// answer. Throws InvalidArgument if it is not an http or https URL, or leads from https to http.
HttpSource redirected(const HttpSource& from, kj::StringPtr location);

// Returns the authorities of talos.config.ca as PEM; nullptr if the parameter is absent. It may be
// repeated; each value is base64 of a certificate in DER, or of PEM text with several. Throws
// InvalidArgument.
kj::Maybe<kj::String> configAuthorities(const KernelArguments& arguments);

}  // namespace talos::machined
