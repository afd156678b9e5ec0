// Serves one request of the brain on a socket: one answer, then the end.
//
// Passphrases are only in the request, and in the answer to a request to unseal one. They are
// zeroed with it, and appear in no message: libcryptsetup's messages name devices and slots. A
// failure that is not an answer ends the process, which the brain notices.
#pragma once

namespace talos::luks {

int serve(int socket);  // the exit status

}  // namespace talos::luks
