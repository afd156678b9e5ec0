// Files of /etc that belong to this machine and not to the image. The image's root is read-only:
// there /etc/hosts and the like are links to /system/etc, which is a tmpfs.
#pragma once

#include <kj/string.h>

namespace talos::machined {

kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname);
kj::String resolvFile(kj::ArrayPtr<const kj::String> servers);

// mkdir 0700 of /system/{etc,run,var,state} below `root`; /system/etc is 0755, for every daemon
// reads it.
void setupSystemDirectory(kj::StringPtr root);

// Writes <root>/system/etc/<name>, 0644.
void writeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content);

}  // namespace talos::machined
