#include "machined/tasks/etc.h"

#include <kj/debug.h>
#include <sys/stat.h>

#include "common/file.h"

namespace talos::machined {

kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname) {
  auto names = hostname == nullptr     ? kj::str("localhost")
               : domainname == nullptr ? kj::str(hostname)
                                       : kj::str(hostname, ".", domainname, " ", hostname);
  return kj::str("127.0.0.1 localhost\n127.0.1.1 ", names,
                 "\n::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\n"
                 "ff02::2 ip6-allrouters\n");
}

kj::String resolvFile(kj::ArrayPtr<const kj::String> servers) {
  return kj::strArray(KJ_MAP(s, servers) { return kj::str("nameserver ", s, "\n"); }, "");
}

void setupSystemDirectory(kj::StringPtr root) {
  for (auto name : {"etc"_kj, "run"_kj, "var"_kj, "state"_kj}) {
    auto path = kj::str(root, "/system/", name);
    mode_t mode = name == "etc" ? 0755 : 0700;
    makeDirectories(path, mode);
    KJ_SYSCALL(chmod(path.cStr(), mode), path);
  }
}

void writeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content) {
  makeDirectories(kj::str(root, "/system/etc"), 0755);
  writeFileAtomically(kj::str(root, "/system/etc/", name), content.asArray(), 0644);
}

}  // namespace talos::machined
