#include "runtime/cpu/jit.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "quern/error.h"

namespace quern {

namespace {

namespace orc = llvm::orc;

// The IR is SSA, with little to clean up. On the conformance kernels Full runs as fast as the standard O2 pipeline in two thirds
// of its time; Quick takes a quarter of Full's and gives code that is several times slower.
constexpr llvm::StringLiteral kExplicit = "function(early-cse,loop-mssa(licm))";
constexpr llvm::StringLiteral kQuick = "function(early-cse,loop-mssa(licm))";
constexpr llvm::StringLiteral kFull =
    "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),loop(indvars),loop-vectorize,slp-vectorizer,"
    "instcombine<no-verify-fixpoint>,loop-mssa(licm),loop-unroll,early-cse)";

// Vectorizer and scheduler take the square of a block's length in time and more; longer ones are compiled in parts, unoptimized.
constexpr size_t kMaxBlock = 8000;
constexpr size_t kPart = 500;

template <class T>
T checked(llvm::Expected<T> value, const char* what) {
  if (!value) throw DeviceError(std::string(what) + ": " + llvm::toString(value.takeError()));
  return std::move(*value);
}

class LlvmCode final : public Jit::Code {
 public:
  LlvmCode(std::shared_ptr<Jit> jit, orc::ResourceTrackerSP tracker, Entry address)
      : jit_(std::move(jit)), tracker_(std::move(tracker)), entry_(address) {}
  ~LlvmCode() override { llvm::consumeError(tracker_->remove()); }
  Entry entry() const override { return entry_; }

 private:
  std::shared_ptr<Jit> jit_;
  orc::ResourceTrackerSP tracker_;
  Entry entry_;
};

class LlvmJit final : public Jit {
 public:
  LlvmJit(orc::JITTargetMachineBuilder machine, std::unique_ptr<orc::LLJIT> lljit)
      : machine_(std::move(machine)), lljit_(std::move(lljit)), layout_(lljit_->getDataLayout()) {}

  std::string compiler() const override { return "LLVM " LLVM_VERSION_STRING; }

  std::unique_ptr<Code> compile(const std::string& ir, const std::string& entry, Effort effort) override {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module = read(context, ir);
    if (largest_block(*module) > kMaxBlock) effort = Effort::Quick;
    orc::JITTargetMachineBuilder machine = machine_;
    machine.setCodeGenOptLevel(effort != Effort::Quick ? llvm::CodeGenOptLevel::Less : llvm::CodeGenOptLevel::None);
    std::unique_ptr<llvm::TargetMachine> target = checked(machine.createTargetMachine(), "no code generator");
    module->setTargetTriple(target->getTargetTriple().str());
    module->setDataLayout(layout_);
    // A name of its own, so that programs of the same name live side by side; nothing else is seen from outside.
    std::string name = entry + std::to_string(count_++);
    for (llvm::Function& f : *module) {
      if (f.isDeclaration()) continue;
      if (f.getName() == entry) {
        f.setName(name);
      } else {
        f.setLinkage(llvm::GlobalValue::InternalLinkage);
      }
      f.addFnAttr("target-cpu", target->getTargetCPU());
      f.addFnAttr("target-features", target->getTargetFeatureString());
    }
    optimize(*module, *target, effort);
    if (largest_block(*module) > kMaxBlock) {
      target->setOptLevel(llvm::CodeGenOptLevel::None);  // it leaves blocks as they are
      split_blocks(*module);
    }
    std::unique_ptr<llvm::MemoryBuffer> object =
        checked(orc::SimpleCompiler(*target)(*module), "code generation failed");
    orc::ResourceTrackerSP tracker = lljit_->getMainJITDylib().createResourceTracker();
    if (llvm::Error error = lljit_->addObjectFile(tracker, std::move(object)))
      throw CompileError("cannot link the kernel: " + llvm::toString(std::move(error)));
    llvm::Expected<orc::ExecutorAddr> address = lljit_->lookup(name);
    if (!address) {
      std::string log = llvm::toString(address.takeError());
      llvm::consumeError(tracker->remove());
      throw CompileError("cannot link the kernel: " + log, log);
    }
    return std::make_unique<LlvmCode>(shared_from_this(), tracker, address->toPtr<Code::Entry>());
  }

 private:
  static std::unique_ptr<llvm::Module> read(llvm::LLVMContext& context, const std::string& ir) {
    llvm::SMDiagnostic diagnostic;
    std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, diagnostic, context);
    std::string log;
    llvm::raw_string_ostream out(log);
    if (!module) {
      diagnostic.print("kernel.ll", out, false);
    } else if (llvm::verifyModule(*module, &out)) {
      module.reset();
    }
    if (!module) throw CompileError("LLVM refused the kernel's code:\n" + log + "\n" + ir, log);
    return module;
  }

  static size_t largest_block(const llvm::Module& module) {
    size_t most = 0;
    for (const llvm::Function& f : module)
      for (const llvm::BasicBlock& b : f) most = std::max(most, b.size());
    return most;
  }

  /// Cuts long blocks into ones that are generated fast.
  static void split_blocks(llvm::Module& module) {
    for (llvm::Function& f : module) {
      std::vector<llvm::BasicBlock*> blocks;
      for (llvm::BasicBlock& b : f) blocks.push_back(&b);
      for (llvm::BasicBlock* b : blocks) {
        if (b->size() <= kMaxBlock) continue;
        std::vector<llvm::Instruction*> cuts;  // from the end, so that each cut moves one part
        size_t at = 0;
        for (llvm::Instruction& i : *b)
          if (++at % kPart == 0 && !llvm::isa<llvm::PHINode>(i) && !i.isTerminator()) cuts.push_back(&i);
        for (size_t i = cuts.size(); i-- > 0;) b->splitBasicBlock(cuts[i]);
      }
    }
  }

  static void optimize(llvm::Module& module, llvm::TargetMachine& target, Effort effort) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(&target);
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    llvm::ModulePassManager passes;
    if (llvm::Error error = builder.parsePassPipeline(passes, effort == Effort::Full       ? kFull
                                                              : effort == Effort::Explicit ? kExplicit
                                                                                           : kQuick))
      throw InternalError("LLVM's passes: " + llvm::toString(std::move(error)));
    passes.run(module, modules);
  }

  orc::JITTargetMachineBuilder machine_;
  std::unique_ptr<orc::LLJIT> lljit_;
  llvm::DataLayout layout_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace

std::shared_ptr<Jit> Jit::create() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  orc::JITTargetMachineBuilder machine =
      checked(orc::JITTargetMachineBuilder::detectHost(), "cannot tell this machine");
  machine.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Standard;
  auto lljit = checked(orc::LLJITBuilder().setJITTargetMachineBuilder(machine).create(), "cannot start LLVM's JIT");
  // Loops become calls of memset and memcpy.
  lljit->getMainJITDylib().addGenerator(
      checked(orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(lljit->getDataLayout().getGlobalPrefix()),
              "cannot see this process"));
  return std::make_shared<LlvmJit>(std::move(machine), std::move(lljit));
}

}  // namespace quern
