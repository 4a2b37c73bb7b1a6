; One call of a kernel, from XLA's typed foreign-function interface to threads and back.
;
; `run` is what a kernel's handler calls. It reads the buffers' shapes, cuts the work into pieces, lets threads of XLA's
; pool take pieces while the caller takes them, too, and adds up what is to be summed. A piece (`piece.ll`) is a
; stretch of samples of one model, which is one index of the outer axis. Pieces are as long whatever the number of
; threads, and their sums are added in order, so results do not depend on who computed what.
;
; This is LLVM assembly with a few shorthands, which `ffi_frame.py` expands: `struct` names the fields of a type; `get`,
; `set` and `at` are a field's value, its assignment and its address; what begins with a dollar sign is filled in.

; Of XLA, as declared in xla/ffi/api/c_api.h
struct Version   { i64 bytes, ptr extension, i32 major, i32 minor }
struct Metadata  { i64 bytes, %Version version, i32 traits }
struct Extension { i64 bytes, i32 type, ptr next, ptr metadata }
struct Buffers   { i64 bytes, ptr extension, i64 count, ptr types, ptr list }
struct Buffer    { i64 bytes, ptr extension, i32 type, ptr data, i64 rank, ptr dims }
struct Frame     { i64 bytes, ptr extension, ptr api, ptr context, i32 stage, %Buffers in, %Buffers out }
struct Api       { i64 bytes, ptr extension, %Version version, ptr internal, [$functions x ptr] functions }
struct NewError  { i64 bytes, ptr extension, ptr message, i32 code }
struct OldError  { i64 bytes, ptr extension, ptr error }
struct Threads   { i64 bytes, ptr extension, ptr context, ptr number }
struct Schedule  { i64 bytes, ptr extension, ptr context, ptr task, ptr data }

; Of kernels, as written by llvm_ir.py. The last ones of a kernel, and `copy`, are offsets in a thread's scratch memory,
; in bytes; at its beginning are pointers to the arrays.
struct Array  { i64 size, i64 has_samples, i64 samples_last, i64 copy }
struct Kernel { ptr arrays, ptr prepare, ptr compute, i64 arguments, i64 count, i64 lanes, i64 longest, i64 summed, i64 scratch, i64 copies, i64 shared, i64 sums, i64 other_sums, i64 totals }

; A call in progress. `turn` is how many pieces are taken at once; `users` are threads that still look at this.
struct View { ptr data, i64 model_step, i64 sample_step, i64 element_step }
struct Job  { ptr kernel, i64 models, i64 samples, i64 pieces, i64 all_pieces, i64 turn, i64 turns, ptr totals, i64 next, i64 done, i64 users, [0 x %View] views }

declare ptr @malloc(i64) nounwind
declare void @free(ptr) nounwind
declare i32 @sched_yield() nounwind
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

@wrong = internal constant [61 x i8] c"diffnea kernel: the buffers do not have the shapes it is for\00"
@starved = internal constant [30 x i8] c"diffnea kernel: out of memory\00"

define ptr @$run(ptr %frame, ptr %kernel) nounwind {
  %extension = get Frame.extension %frame
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %call, label %extended
extended:
  %type = get Extension.type %extension
  %asked = icmp eq i32 %type, 1
  br i1 %asked, label %answer, label %call
answer: ; XLA asks which version of its interface this is written for
  %metadata = get Extension.metadata %extension
  %version = at Metadata.version %metadata
  set Version.major %version, $major
  set Version.minor %version, $minor
  set Metadata.traits %metadata, 0
  ret ptr null
call:
  %error = call ptr @execute(ptr %frame, ptr %kernel)
  ret ptr %error
}

define internal ptr @execute(ptr %frame, ptr %kernel) nounwind {
entry:
  %count = get Kernel.count %kernel
  %end = getelementptr %View, ptr getelementptr (%Job, ptr null, i64 0, i32 11), i64 %count
  %bytes = ptrtoint ptr %end to i64
  %job = call ptr @malloc(i64 %bytes)
  %no.job = icmp eq ptr %job, null
  br i1 %no.job, label %starved, label %read
read:
  set Job.kernel %job, %kernel
  %fits = call i1 @read_shapes(ptr %frame, ptr %job)
  br i1 %fits, label %plan, label %wrong
wrong:
  call void @free(ptr %job)
  %error = call ptr @fail(ptr %frame, ptr @wrong, i32 3)
  ret ptr %error
plan:
  call void @divide(ptr %job)
  %scratch = call ptr @new_scratch(ptr %kernel)
  %no.scratch = icmp eq ptr %scratch, null
  br i1 %no.scratch, label %starved.job, label %allot
allot:
  %totals.bytes = call i64 @bytes_of_totals(ptr %job)
  %totals = call ptr @malloc(i64 %totals.bytes)
  set Job.totals %job, %totals
  %no.totals = icmp eq ptr %totals, null
  br i1 %no.totals, label %starved.scratch, label %go
go:
  call void @enlarge_pages(ptr %job)
  call void @invite(ptr %frame, ptr %job)
  call void @work(ptr %job, ptr %scratch)
  call void @wait(ptr %job)
  call void @finish(ptr %job)
  call void @free(ptr %totals)
  call void @free(ptr %scratch)
  call void @release(ptr %job)
  ret ptr null
starved.scratch:
  call void @free(ptr %scratch)
  br label %starved.job
starved.job:
  call void @free(ptr %job)
  br label %starved
starved:
  %hunger = call ptr @fail(ptr %frame, ptr @starved, i32 8)
  ret ptr %hunger
}

define internal ptr @function(ptr %frame, i64 %which) nounwind {
  %api = get Frame.api %frame
  %functions = at Api.functions %api
  %at = getelementptr ptr, ptr %functions, i64 %which
  %function = load ptr, ptr %at
  ret ptr %function
}

define internal ptr @fail(ptr %frame, ptr %message, i32 %code) nounwind {
  %arguments = alloca %NewError
  set NewError.bytes %arguments, 28
  set NewError.extension %arguments, null
  set NewError.message %arguments, %message
  set NewError.code %arguments, %code
  %create = call ptr @function(ptr %frame, i64 $error_create)
  %error = call ptr %create(ptr %arguments)
  ret ptr %error
}

define internal void @forget(ptr %frame, ptr %error) nounwind {
  %arguments = alloca %OldError
  set OldError.bytes %arguments, 24
  set OldError.extension %arguments, null
  set OldError.error %arguments, %error
  %destroy = call ptr @function(ptr %frame, i64 $error_destroy)
  call void %destroy(ptr %arguments)
  ret void
}

; Shapes: fill in models, samples and views; false if a buffer is not as the kernel expects.
define internal i1 @read_shapes(ptr %frame, ptr %job) nounwind {
entry:
  %kernel = get Job.kernel %job
  %arguments = get Kernel.arguments %kernel
  %count = get Kernel.count %kernel
  %arrays = get Kernel.arrays %kernel
  %in = at Frame.in %frame
  %out = at Frame.out %frame
  %ins = get Buffers.count %in
  %outs = get Buffers.count %out
  %both = add i64 %ins, %outs
  %same.ins = icmp eq i64 %ins, %arguments
  %same.both = icmp eq i64 %both, %count
  %same = and i1 %same.ins, %same.both
  br i1 %same, label %measure, label %no
measure: ; the last result has all models; arrays with samples agree on how many: take what the last of them has
  %k = phi i64 [ 0, %entry ], [ %k.next, %measure ]
  %samples.so.far = phi i64 [ 1, %entry ], [ %samples, %measure ]
  %array = getelementptr %Array, ptr %arrays, i64 %k
  %buffer = call ptr @buffer(ptr %frame, i64 %k, i64 %arguments)
  %shape = call { i64, i64, i64 } @shape(ptr %buffer, ptr %array)
  %models = extractvalue { i64, i64, i64 } %shape, 0
  %seen = extractvalue { i64, i64, i64 } %shape, 1
  %has.number = get Array.has_samples %array
  %has = icmp ne i64 %has.number, 0
  %samples = select i1 %has, i64 %seen, i64 %samples.so.far
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %measure, label %keep
keep:
  set Job.models %job, %models
  set Job.samples %job, %samples
  br label %check
check:
  %j = phi i64 [ 0, %keep ], [ %j.next, %good ]
  %right = call i1 @read_shape(ptr %frame, ptr %job, i64 %j, i64 %arguments)
  br i1 %right, label %good, label %no
good:
  %j.next = add i64 %j, 1
  %again = icmp slt i64 %j.next, %count
  br i1 %again, label %check, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

define internal ptr @buffer(ptr %frame, i64 %k, i64 %arguments) nounwind {
  %is.argument = icmp slt i64 %k, %arguments
  %in = at Frame.in %frame
  %out = at Frame.out %frame
  %buffers = select i1 %is.argument, ptr %in, ptr %out
  %list = get Buffers.list %buffers
  %later = sub i64 %k, %arguments
  %index = select i1 %is.argument, i64 %k, i64 %later
  %at = getelementptr ptr, ptr %list, i64 %index
  %buffer = load ptr, ptr %at
  ret ptr %buffer
}

; Models, samples and elements; minus ones if it is not of rank three or of another type.
define internal { i64, i64, i64 } @shape(ptr %buffer, ptr %array) nounwind {
  %type = get Buffer.type %buffer
  %rank = get Buffer.rank %buffer
  %right.type = icmp eq i32 %type, $element_type
  %right.rank = icmp eq i64 %rank, 3
  %right = and i1 %right.type, %right.rank
  br i1 %right, label %known, label %unknown
known:
  %dims = get Buffer.dims %buffer
  %models = load i64, ptr %dims
  %second.at = getelementptr i64, ptr %dims, i64 1
  %second = load i64, ptr %second.at
  %third.at = getelementptr i64, ptr %dims, i64 2
  %third = load i64, ptr %third.at
  %last.number = get Array.samples_last %array
  %last = icmp ne i64 %last.number, 0
  %samples = select i1 %last, i64 %third, i64 %second
  %elements = select i1 %last, i64 %second, i64 %third
  %s0 = insertvalue { i64, i64, i64 } poison, i64 %models, 0
  %s1 = insertvalue { i64, i64, i64 } %s0, i64 %samples, 1
  %s2 = insertvalue { i64, i64, i64 } %s1, i64 %elements, 2
  ret { i64, i64, i64 } %s2
unknown:
  ret { i64, i64, i64 } { i64 -1, i64 -1, i64 -1 }
}

define internal i1 @read_shape(ptr %frame, ptr %job, i64 %k, i64 %arguments) nounwind {
  %kernel = get Job.kernel %job
  %arrays = get Kernel.arrays %kernel
  %array = getelementptr %Array, ptr %arrays, i64 %k
  %buffer = call ptr @buffer(ptr %frame, i64 %k, i64 %arguments)
  %shape = call { i64, i64, i64 } @shape(ptr %buffer, ptr %array)
  %its.models = extractvalue { i64, i64, i64 } %shape, 0
  %its.samples = extractvalue { i64, i64, i64 } %shape, 1
  %its.size = extractvalue { i64, i64, i64 } %shape, 2
  %models = get Job.models %job
  %samples = get Job.samples %job
  %size = get Array.size %array
  %has.number = get Array.has_samples %array
  %has = icmp ne i64 %has.number, 0
  %expected = select i1 %has, i64 %samples, i64 1
  %right.samples = icmp eq i64 %its.samples, %expected
  %right.size = icmp eq i64 %its.size, %size
  %all.models = icmp eq i64 %its.models, %models
  %one.model = icmp eq i64 %its.models, 1
  %is.argument = icmp slt i64 %k, %arguments
  %one.for.all = and i1 %one.model, %is.argument
  %right.models = or i1 %all.models, %one.for.all
  %right.most = and i1 %right.samples, %right.size
  %right = and i1 %right.most, %right.models
  %data = get Buffer.data %buffer
  %whole = mul i64 %its.samples, %size
  %model.step = select i1 %all.models, i64 %whole, i64 0
  %last.number = get Array.samples_last %array
  %last = icmp ne i64 %last.number, 0
  %step = select i1 %last, i64 1, i64 %size
  %sample.step = select i1 %has, i64 %step, i64 0
  %element.step = select i1 %last, i64 %its.samples, i64 1
  %view = call ptr @view(ptr %job, i64 %k)
  set View.data %view, %data
  set View.model_step %view, %model.step
  set View.sample_step %view, %sample.step
  set View.element_step %view, %element.step
  ret i1 %right
}

define internal ptr @view(ptr %job, i64 %k) nounwind {
  %views = at Job.views %job
  %view = getelementptr %View, ptr %views, i64 %k
  ret ptr %view
}

; Cut each model's samples into pieces; take several models a turn where one is little work.
define internal void @divide(ptr %job) nounwind {
  %kernel = get Job.kernel %job
  %longest = get Kernel.longest %kernel
  %models = get Job.models %job
  %samples = get Job.samples %job
  %some = call i64 @llvm.smax.i64(i64 %samples, i64 1)
  %pieces = call i64 @quotient_up(i64 %some, i64 %longest)
  %all = mul i64 %models, %pieces
  %fitting = sdiv i64 %longest, %some
  %turn = call i64 @llvm.smax.i64(i64 %fitting, i64 1)
  %turns = call i64 @quotient_up(i64 %all, i64 %turn)
  set Job.pieces %job, %pieces
  set Job.all_pieces %job, %all
  set Job.turn %job, %turn
  set Job.turns %job, %turns
  set Job.next %job, 0
  set Job.done %job, 0
  set Job.users %job, 1
  ret void
}

define internal i64 @quotient_up(i64 %a, i64 %b) nounwind {
  %more = add i64 %a, %b
  %most = sub i64 %more, 1
  %quotient = sdiv i64 %most, %b
  ret i64 %quotient
}
