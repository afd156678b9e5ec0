// A TPM 2.0 in software, in a separate process on a Unix socket.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_tcti_swtpm.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/file.h"
#include "machined/disk/luks/tpm-sealing.h"

extern char** environ;

namespace talos::luks {

class Swtpm {
 public:
  Swtpm() {
    char name[] = "/tmp/swtpm-XXXXXX";
    folder = mkdtemp(name);
    turnOn();
  }
  ~Swtpm() {
    turnOff();
    removeTree(folder.c_str());
  }
  KJ_DISALLOW_COPY_AND_MOVE(Swtpm);

  // The registers are zeros again, the seeds stay.
  void restart() {
    turnOff();
    turnOn();
  }
  Tpm connect() { return Tpm(transport()); }

  void extend(unsigned pcr, kj::byte fill) {
    TPML_DIGEST_VALUES values = {};
    values.count = 1;
    values.digests[0].hashAlg = TPM2_ALG_SHA256;
    memset(values.digests[0].digest.sha256, fill, TPM2_SHA256_DIGEST_SIZE);
    command([&](ESYS_CONTEXT* esys) {
      return Esys_PCR_Extend(esys, ESYS_TR_PCR0 + pcr, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE,
                             &values);
    });
  }
  // Changes the owner's seed, which the firmware's menu calls clearing the TPM.
  void clear() {
    command([](ESYS_CONTEXT* esys) {
      return Esys_Clear(esys, ESYS_TR_RH_LOCKOUT, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE);
    });
  }
  void setOwnerPassword() {
    TPM2B_AUTH password = {.size = 1, .buffer = {'x'}};
    command([&](ESYS_CONTEXT* esys) {
      return Esys_HierarchyChangeAuth(esys, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE,
                                      ESYS_TR_NONE, &password);
    });
  }

 private:
  std::string folder;
  pid_t process = 0;

  std::string socket() const { return folder + "/socket"; }

  void turnOn() {
    std::vector<std::string> words = {"swtpm",
                                      "socket",
                                      "--tpm2",
                                      "--tpmstate",
                                      "dir=" + folder,
                                      "--server",
                                      "type=unixio,path=" + socket(),
                                      "--ctrl",
                                      "type=unixio,path=" + socket() + ".ctrl",
                                      "--flags",
                                      "not-need-init,startup-clear",
                                      "--log",
                                      "file=" + folder + "/log"};
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int failed = posix_spawnp(&process, "swtpm", nullptr, nullptr, argv.data(), environ);
    KJ_REQUIRE(failed == 0, "cannot start swtpm", strerror(failed));
    for (int i = 0; i < 1000; ++i) {
      int status;
      if (access((socket() + ".ctrl").c_str(), F_OK) == 0 && access(socket().c_str(), F_OK) == 0)
        return;
      KJ_REQUIRE(waitpid(process, &status, WNOHANG) == 0, "swtpm has ended",
                 readFile((folder + "/log").c_str()));
      usleep(10000);
    }
    KJ_FAIL_REQUIRE("swtpm does not listen");
  }
  void turnOff() {
    kill(process, SIGTERM);
    waitpid(process, nullptr, 0);
    for (auto end : {"", ".ctrl"}) unlink((socket() + end).c_str());
  }

  kj::Array<kj::byte> transport() const {
    setenv("TSS2_LOG", "all+none", 0);
    size_t size = 0;
    KJ_REQUIRE(Tss2_Tcti_Swtpm_Init(nullptr, &size, nullptr) == TSS2_RC_SUCCESS);
    auto bytes = kj::heapArray<kj::byte>(size);
    memset(bytes.begin(), 0, size);
    auto code = Tss2_Tcti_Swtpm_Init(reinterpret_cast<TSS2_TCTI_CONTEXT*>(bytes.begin()), &size,
                                     ("path=" + socket()).c_str());
    KJ_REQUIRE(code == TSS2_RC_SUCCESS, "cannot connect to swtpm", code);
    return bytes;
  }
  template <typename Send>
  void command(Send&& send) {
    auto bytes = transport();
    auto context = reinterpret_cast<TSS2_TCTI_CONTEXT*>(bytes.begin());
    ESYS_CONTEXT* esys = nullptr;
    KJ_REQUIRE(Esys_Initialize(&esys, context, nullptr) == TSS2_RC_SUCCESS);
    auto code = send(esys);
    Esys_Finalize(&esys);
    Tss2_Tcti_Finalize(context);
    KJ_REQUIRE(code == TSS2_RC_SUCCESS, kj::hex(code));
  }
};

}  // namespace talos::luks
