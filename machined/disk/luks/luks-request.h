// One request of the brain on a socket, one answer, and the end.
//
// Passphrases come in the request only. They are zeroed with it, and appear in no message: those of
// libcryptsetup name devices and slots. A failure that is no answer ends the process, which the
// brain notices.
#pragma once

namespace talos::luks {

int serve(int socket);  // the exit status

}  // namespace talos::luks
