// Files of /etc that belong to this machine and not to the image. The image's root is read-only, so
// each has a writable copy in /system/etc that is bound over the image's.
#pragma once

#include <kj/string.h>

namespace talos::machined {

kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname);
kj::String resolvFile(kj::ArrayPtr<const kj::String> servers);
kj::String osReleaseFile(kj::StringPtr name, kj::StringPtr tag, kj::StringPtr sha);

// mkdir 0700 of /system/{etc,run,var,state} below `root`; /system/etc is 0755, for every daemon
// reads it.
void setupSystemDirectory(kj::StringPtr root);

// Writes <root>/system/etc/<name> (0644) and binds it over <root>/etc/<name>. False when the image
// has no file of that name to bind over; a mount that is there already stays.
bool placeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content);

}  // namespace talos::machined
